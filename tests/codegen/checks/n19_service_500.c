/* SPDX-License-Identifier: Apache-2.0 */
/* n19_service_500.c - each of three methods far apart in the table reaches its own handler, blocking and with a callback. */
#include "checks/check.h"

static int user_data = 7;
static int done_count;

static void answer(struct sealane_call *call, const Nasty__N19__M *request, int number)
{
    Nasty__N19__M reply = NASTY__N19__M__INIT;
    reply.v = request->v + number;
    CHECK(nasty_n19_big_method000__reply(call, &reply) == SEALANE_OK);
}

#define HANDLER(number)                                                                 \
    static void handle##number(struct sealane_call *call, const Nasty__N19__M *request, \
                               void *user)                                              \
    {                                                                                   \
        CHECK(user == &user_data);                                                      \
        answer(call, request, number);                                                  \
    }
HANDLER(499)
HANDLER(250)
HANDLER(1)

static void done(struct sealane_call *call, enum sealane_status status, const Nasty__N19__M *reply,
                 void *user)
{
    CHECK(call && status == SEALANE_OK && user == &user_data);
    CHECK(reply->v == 1250);
    done_count++;
}

#define CALL(number, suffix)                                                                    \
    do {                                                                                        \
        const Nasty__N19__M *reply = NULL;                                                      \
        struct sealane_call *call = NULL;                                                       \
        CHECK(nasty_n19_big_method##suffix(NULL, &request, NULL, &reply, &call) == SEALANE_OK); \
        CHECK(reply->v == 1000 + (number));                                                     \
        sealane_call_free(call);                                                                \
    } while (0)

int main(void)
{
    const struct nasty_n19_big__handlers handlers = {.method499 = handle499,
                                                     .method250 = handle250,
                                                     .method001 = handle1};
    Nasty__N19__M request = NASTY__N19__M__INIT;
    request.v = 1000;
    CHECK(nasty_n19_big__register(NULL, &handlers, &user_data) == SEALANE_OK);
    CHECK(nasty_n19_big__service.method_count == 500);
    CHECK(strcmp(nasty_n19_big__service.name, "nasty.n19.Big") == 0);
    CHECK(strcmp(nasty_n19_big__service.methods[0].path, "/nasty.n19.Big/Method499") == 0);
    CALL(499, 499);
    CALL(250, 250);
    CALL(1, 001);
    CHECK(nasty_n19_big_method250__start(NULL, &request, NULL, done, &user_data, NULL) ==
          SEALANE_OK);
    CHECK(done_count == 1);

    const Nasty__N19__M *reply = &request;
    struct sealane_call *call = NULL;
    CHECK(nasty_n19_big_method002(NULL, &request, NULL, &reply, &call) == SEALANE_UNIMPLEMENTED);
    CHECK(reply == NULL && call == NULL);
    return 0;
}
