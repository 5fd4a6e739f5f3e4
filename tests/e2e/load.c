/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - the load: calls of every kind from several threads, each with a record that counts its ends. The kitchen is in load_server.c. */
#include "tests/e2e/load.h"

#include "tests/support/rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum kind {
    SMALL,
    FRAMES,  /* a message of many frames */
    EAGER,   /* a tensor that comes unasked */
    ALLOWED, /* one that is asked for */
    LATE,    /* answered from another thread */
    GIVEN_UP,
    HASTY /* its deadline comes before its answer */
};

struct load_call {
    struct load_call *next;
    struct load *load;
    enum kind kind;
    atomic_int ends;
    uint64_t began_ms;
    struct sealane_call *kept; /* GIVEN_UP: stays a valid pointer for the one who cancels */
    struct load_dish dish;
};

/* ---- small things ---- */

uint64_t load_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void rest_us(long us)
{
    const struct timespec time = {us / 1000000, us % 1000000 * 1000};

    (void)nanosleep(&time, NULL);
}

void load_rest_ms(long ms)
{
    rest_us(ms * 1000);
}

void load_must(enum sealane_status status, const char *what)
{
    if (status == SEALANE_OK)
        return;
    (void)fprintf(stderr, "%s: %s: %s\n", what, sealane_status_name(status),
                  sealane_last_error()->message);
    abort();
}

/* Each process has an address of its own in 127/8, so that no other test is in the way. */
bool load_address(const char *link, char address[LOAD_ADDRESS])
{
    unsigned pid = (unsigned)getpid();

    if (strcmp(link, "verbs") == 0)
        return rdma_address(address, LOAD_ADDRESS, 0);
    if (strcmp(link, "tcp") == 0)
        (void)snprintf(address, LOAD_ADDRESS, "127.%u.%u.%u:7100", 1 + pid / 62500 % 250,
                       pid / 250 % 250, 1 + pid % 250);
    else
        (void)snprintf(address, LOAD_ADDRESS, "unix-abstract:sealane-load-%u", pid);
    return true;
}

struct sealane_credentials *load_credentials(const char *who)
{
    char certificate[512], key[512];
    struct sealane_credentials_options options = {.ca_file = LOAD_CA,
                                                  .certificate_file = certificate,
                                                  .key_file = key};
    struct sealane_credentials *made;

    (void)snprintf(certificate, sizeof(certificate), LOAD_LEAF ".pem", who);
    (void)snprintf(key, sizeof(key), LOAD_LEAF ".key", who);
    load_must(sealane_credentials_new(&options, &made), "credentials");
    return made;
}

/* ---- the pattern ---- */

static uint8_t pattern[LOAD_PATTERN];

static void pattern_make(void)
{
    uint64_t x = 88172645463325252u;

    for (size_t i = 0; i < sizeof(pattern); i += sizeof(x)) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(pattern + i, &x, sizeof(x));
    }
}

const uint8_t *load_pattern(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, pattern_make);
    return pattern;
}

void load_dish_fill(struct load_dish *dish, uint64_t offset, size_t raw_bytes, size_t tensor_bytes)
{
    uint8_t *at = (uint8_t *)(uintptr_t)(load_pattern() + offset); /* the packer only reads */

    *dish = (struct load_dish){KITCHEN__V1__DISH__INIT, SEALANE__TENSOR__INIT, tensor_bytes};
    dish->request._maybe_case = KITCHEN__V1__DISH___MAYBE_MAYBE;
    dish->request.maybe = offset;
    dish->request.raw = (ProtobufCBinaryData){raw_bytes, at};
    if (tensor_bytes == 0)
        return;
    dish->tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    dish->tensor.n_shape = 1;
    dish->tensor.shape = &dish->shape;
    dish->tensor.data = (ProtobufCBinaryData){tensor_bytes, at};
    dish->request.tensor = &dish->tensor;
}

static bool same_bytes(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

bool load_dish_matches(const Kitchen__V1__Dish *sent, const Kitchen__V1__Dish *got)
{
    if (got->maybe != sent->maybe || !same_bytes(&sent->raw, &got->raw) ||
        !sent->tensor != !got->tensor)
        return false;
    return !sent->tensor || same_bytes(&sent->tensor->data, &got->tensor->data);
}

/* ---- a client ---- */

struct load_client load_client_open(const char *address,
                                    const struct sealane_channel_options *options, bool polled)
{
    struct load_client client = {.credentials = load_credentials("client")};
    const struct sealane_node_options node = {.polled = polled};
    struct sealane_channel_options all = *options;

    (void)load_pattern();
    all.credentials = client.credentials;
    all.server_name = "server.test";
    all.backoff_ms = 2;
    all.backoff_max_ms = 20;
    load_must(sealane_node_new(&node, &client.node), "a client's node");
    load_must(sealane_channel_new(client.node, address, &all, &client.channel), "channel");
    return client;
}

void load_client_close(struct load_client *client)
{
    sealane_channel_free(client->channel);
    sealane_node_free(client->node);
    sealane_credentials_free(client->credentials);
}

/* ---- how calls end ---- */

static void blame(struct load *load, const char *what, enum sealane_status status, const char *text)
{
    (void)pthread_mutex_lock(&load->lock);
    if (atomic_fetch_add(&load->wrong, 1) == 0)
        (void)snprintf(load->why, sizeof(load->why), "%s: %s: %.250s", what,
                       sealane_status_name(status), text);
    (void)pthread_mutex_unlock(&load->lock);
}

static void note_time(struct load *load, uint64_t began_ms)
{
    int took = (int)(load_now_ms() - began_ms), slowest = atomic_load(&load->slowest_ms);

    while (took > slowest && !atomic_compare_exchange_weak(&load->slowest_ms, &slowest, took)) {
    }
}

static void judge(struct load_call *mine, enum sealane_status status, const char *text,
                  const Kitchen__V1__Dish *reply)
{
    struct load *load = mine->load;

    if (status == SEALANE_OK && !load_dish_matches(&mine->dish.request, reply))
        blame(load, "a reply is another's or was changed", status, "");
    else if (status == SEALANE_OK)
        atomic_fetch_add(&load->ok, 1);
    else if (status == SEALANE_UNAVAILABLE && !load->options.steady)
        atomic_fetch_add(&load->unavailable, 1);
    else if (status == SEALANE_CANCELLED && (mine->kind == GIVEN_UP || load->options.channel_ends))
        atomic_fetch_add(&load->cancelled, 1);
    else if (status == SEALANE_DEADLINE_EXCEEDED && mine->kind == HASTY)
        atomic_fetch_add(&load->late, 1);
    else
        blame(load, "a call ended as it may not", status, text);
    if (status == SEALANE_OK && mine->kind < LATE)
        note_time(load, mine->began_ms);
}

/* The node's: not even the memory for it needs a lock. */
static void note_thread(struct load *load)
{
    if (!load->called_back)
        load->calling_back = pthread_self();
    load->called_back = true;
    if (!pthread_equal(load->calling_back, pthread_self()))
        atomic_fetch_add(&load->strangers, 1);
}

static void done(struct sealane_call *call, enum sealane_status status,
                 const Kitchen__V1__Dish *reply, void *user)
{
    struct load_call *mine = user;

    if (atomic_fetch_add(&mine->ends, 1) != 0)
        blame(mine->load, "a call ended twice", status, sealane_call_message(call));
    note_thread(mine->load);
    judge(mine, status, sealane_call_message(call), reply);
    if (mine->kind == GIVEN_UP) {
        sealane_call_keep(call);
        mine->kept = call;
    }
    atomic_fetch_add(&mine->load->ended, 1);
}

/* ---- making calls ---- */

static unsigned below(unsigned *seed, unsigned limit)
{
    return (unsigned)rand_r(seed) % limit;
}

static enum kind kind_pick(const struct load *load, unsigned *seed)
{
    static const struct part {
        enum kind kind;
        unsigned percent;
    } mixed[] = {{SMALL, 55}, {FRAMES, 8},   {EAGER, 10}, {ALLOWED, 7},
                 {LATE, 8},   {GIVEN_UP, 8}, {HASTY, 4}},
      raced[] = {{LATE, 20}, {GIVEN_UP, 40}, {HASTY, 40}};
    const struct part *part = load->options.raced ? raced : mixed;
    unsigned at = below(seed, 100);

    while (at >= part->percent)
        at -= part++->percent;
    return part->kind;
}

/* Sizes: of kinds that may be cut off anywhere, anything. */
static void dish_pick(struct load_call *mine, unsigned *seed)
{
    bool small = mine->load->options.small;
    unsigned raw = below(seed, 200), tensor = 0;

    if (mine->kind == FRAMES)
        raw = small ? 4000 : 20000 + below(seed, 200000);
    if (mine->kind == EAGER)
        tensor = small ? 1 + below(seed, 60000) : 1 + below(seed, 250000);
    if (mine->kind == ALLOWED || mine->kind == GIVEN_UP || mine->kind == HASTY)
        tensor = small ? below(seed, 60000) : 262145 + below(seed, 3 << 19) * below(seed, 2);
    load_dish_fill(&mine->dish, below(seed, LOAD_PATTERN / 2), raw, tensor);
    if (mine->kind == LATE)
        mine->dish.request.sleep_ms = 1 + below(seed, 12);
    if (mine->kind == GIVEN_UP)
        mine->dish.request.sleep_ms = below(seed, 4);
    if (mine->kind == HASTY)
        mine->dish.request.sleep_ms = 12;
}

static struct load_call *record_new(struct load *load, enum kind kind, unsigned *seed)
{
    struct load_call *mine = calloc(1, sizeof(*mine));

    if (!mine)
        abort();
    mine->load = load;
    mine->kind = kind;
    mine->began_ms = load_now_ms();
    dish_pick(mine, seed);
    (void)pthread_mutex_lock(&load->lock);
    mine->next = load->calls;
    load->calls = mine;
    (void)pthread_mutex_unlock(&load->lock);
    atomic_fetch_add(&load->started, 1);
    return mine;
}

static void call_refused(struct load_call *mine)
{
    atomic_fetch_add(&mine->ends, 1);
    judge(mine, sealane_last_error()->status, sealane_last_error()->message, NULL);
    atomic_fetch_add(&mine->load->ended, 1);
}

/* What was given up before is cut off now: calls in all states of their lives. */
static void call_start(struct load_call *mine, struct sealane_call **given_up, unsigned *seed)
{
    const struct sealane_call_options options = {.timeout_ms =
                                                     mine->kind == HASTY ? 1 + below(seed, 8) : 0};
    struct sealane_call *call;

    if (kitchen_v1_kitchen_echo__start(mine->load->channel, &mine->dish.request, &options, done,
                                       mine, &call) != SEALANE_OK) {
        call_refused(mine);
        return;
    }
    if (mine->kind != GIVEN_UP)
        return;
    if (*given_up)
        sealane_call_cancel(*given_up);
    *given_up = call;
    if (below(seed, 3) == 0)
        sealane_call_cancel(call);
}

static void call_and_wait(struct load *load, unsigned *seed)
{
    struct load_call *mine = record_new(load, SMALL, seed);
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;
    enum sealane_status status =
        kitchen_v1_kitchen_echo(load->channel, &mine->dish.request, NULL, &reply, &call);

    atomic_fetch_add(&mine->ends, 1);
    judge(mine, status, sealane_last_error()->message, reply);
    sealane_call_free(call);
    atomic_fetch_add(&load->ended, 1);
}

static void hold_back(const struct load *load)
{
    int most = load->options.most_outstanding * load->options.threads;

    while (!atomic_load(&load->stop) &&
           atomic_load(&load->started) - atomic_load(&load->ended) >= most)
        rest_us(200);
}

static void *run(void *argument)
{
    struct load *load = argument;
    unsigned seed = load->options.seed + (unsigned)atomic_fetch_add(&load->running, 1) * 7919;
    struct sealane_call *given_up = NULL;
    int failed = 0;

    while (!atomic_load(&load->stop)) {
        int now_failed = atomic_load(&load->unavailable);

        if (below(&seed, 8) == 0)
            call_and_wait(load, &seed);
        else
            call_start(record_new(load, kind_pick(load, &seed), &seed), &given_up, &seed);
        if (now_failed != failed) /* nobody is there: not as fast as can be */
            rest_us(300);
        failed = now_failed;
        hold_back(load);
    }
    if (given_up)
        sealane_call_cancel(given_up);
    atomic_fetch_sub(&load->running, 1);
    return NULL;
}

struct load *load_begin(struct sealane_channel *channel, const struct load_options *options)
{
    struct load *load = calloc(1, sizeof(*load));

    if (!load)
        abort();
    load->channel = channel;
    load->options = *options;
    if (load->options.threads == 0)
        load->options.threads = 2;
    if (load->options.most_outstanding == 0)
        load->options.most_outstanding = 48;
    (void)pthread_mutex_init(&load->lock, NULL);
    for (int i = 0; i < load->options.threads; i++) {
        if (pthread_create(&load->threads[i], NULL, run, load) != 0)
            abort();
    }
    return load;
}

/* ---- the end ---- */

static void join_all(struct load *load)
{
    for (int i = 0; i < load->options.threads && !load->joined; i++)
        (void)pthread_join(load->threads[i], NULL);
    load->joined = true;
}

void load_stop(struct load *load)
{
    atomic_store(&load->stop, true);
    join_all(load);
}

static int ends_of(const struct load *load, int wanted)
{
    int count = 0;

    for (const struct load_call *call = load->calls; call; call = call->next)
        count += atomic_load(&call->ends) == wanted;
    return count;
}

bool load_wait(struct load *load, long timeout_ms, char why[LOAD_WHY])
{
    uint64_t until = load_now_ms() + (uint64_t)timeout_ms;
    int left;

    atomic_store(&load->stop, true);
    while (load_now_ms() < until && (atomic_load(&load->running) > 0 ||
                                     atomic_load(&load->ended) < atomic_load(&load->started)))
        rest_us(300);
    left = atomic_load(&load->started) - atomic_load(&load->ended);
    if (left > 0 || atomic_load(&load->running) > 0) {
        (void)snprintf(why, LOAD_WHY, "%d of %d calls have not ended after %ld ms, %d threads wait",
                       left, load->started, timeout_ms, load->running);
        return false;
    }
    join_all(load);
    if (atomic_load(&load->wrong) > 0) {
        (void)snprintf(why, LOAD_WHY, "%s", load->why);
        return false;
    }
    if (ends_of(load, 1) != load->started) {
        (void)snprintf(why, LOAD_WHY, "%d of %d calls ended once", ends_of(load, 1), load->started);
        return false;
    }
    return true;
}

void load_free(struct load *load)
{
    while (load->calls) {
        struct load_call *next = load->calls->next;

        sealane_call_free(load->calls->kept);
        free(load->calls);
        load->calls = next;
    }
    (void)pthread_mutex_destroy(&load->lock);
    free(load);
}
