/* SPDX-License-Identifier: Apache-2.0 */
/* lane_device_test.c - bulk rings in a device's memory over link_verbs: by a dma-buf, by nvidia-peermem, and in the host's memory
 * instead where neither will do. Soft RDMA devices take no dma-bufs, so ibv_reg_dmabuf_mr stands for a kernel that does: it registers
 * a mapping of the descriptor. Linked with --wrap of it, of access and of ibv_reg_mr_iova. */
#include "tests/support/lanes.h"
#include "tests/support/memory_fake.h"
#include "transport/lane_inside.h"
#include "transport/link_verbs_inside.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BYTES = 65536 * 9 + 77,
    PAGE = 4096,
    MAPPINGS = 8
};

/* What stands for the kernel answers. */
static struct {
    int probe;    /* errno for a descriptor that is none */
    int dmabuf;   /* errno for a good one; 0: it is taken */
    bool peermem; /* the module is loaded */
    int pages;    /* errno for the pages of a device; 0: they are taken */
    uint64_t offset;
    int dmabufs; /* taken */
} kernel;

static struct lanes lanes;
static struct sl_memory *memories[2];
static int made;
static size_t ring_offset;

struct ibv_mr *__real_ibv_reg_mr_iova(struct ibv_pd *pd, void *at, size_t bytes, uint64_t iova,
                                      int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova(struct ibv_pd *pd, void *at, size_t bytes, uint64_t iova,
                                      int access);
struct ibv_mr *__wrap_ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes,
                                        uint64_t iova, int fd, int access);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

static bool is_of_device(const void *at)
{
    unsigned char residence;

    /* Nobody else here registers pages that cannot be read. */
    return mincore((void *)(uintptr_t)at, 1, &residence) == 0 &&
           madvise((void *)(uintptr_t)at, PAGE, MADV_POPULATE_READ) != 0;
}

/* The driver that lends a GPU's pages knows where they are; here the fake does. */
struct ibv_mr *__wrap_ibv_reg_mr_iova(struct ibv_pd *pd, void *at, size_t bytes, uint64_t iova,
                                      int access)
{
    if (!is_of_device(at))
        return __real_ibv_reg_mr_iova(pd, at, bytes, iova, access);
    errno = kernel.pages;
    for (int i = 0; kernel.pages == 0 && i < made; i++) {
        void *shadow = memory_fake_ring_bytes(memories[i], at);

        if (shadow)
            return __real_ibv_reg_mr_iova(pd, shadow, bytes, iova, access);
    }
    return NULL;
}

struct ibv_mr *__wrap_ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes,
                                        uint64_t iova, int fd, int access)
{
    void *at;

    errno = fd < 0 ? kernel.probe : kernel.dmabuf;
    if (errno != 0)
        return NULL;
    cr_assert_eq(offset, kernel.offset);
    /* Never unmapped: the device writes there until the process ends. */
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    cr_assert_neq(at, MAP_FAILED);
    kernel.dmabufs++;
    return __real_ibv_reg_mr_iova(pd, at, bytes, iova, access);
}

int __wrap_access(const char *path, int mode)
{
    if (strcmp(path, "/sys/module/nvidia_peermem/version") == 0)
        return kernel.peermem ? 0 : -1;
    return __real_access(path, mode);
}

static struct sl_memory *make_memory(void)
{
    cr_assert_eq(memory_fake_new(8 << 20, &memories[made]), SEALANE_OK);
    memory_fake_device_rings(memories[made], ring_offset);
    return memories[made++];
}

static bool all_filled(struct lanes *all)
{
    return all->end[0].filled == BYTES && all->end[1].sent > 0;
}

/* A tensor goes through rings as they came to be, and its bytes are right. */
static void carries(const char *bulk_ring)
{
    static uint8_t content[BYTES], back[BYTES];
    static uint8_t byte = 1;
    static struct sl_part part;
    static struct sl_send send;
    struct sealane_security security;
    void *from, *to;

    lanes_over_verbs(&lanes);
    lanes.memory = make_memory;
    lanes_listen(&lanes);
    for (size_t i = 0; i < BYTES; i++)
        content[i] = (uint8_t)(i * 37 + (i >> 9));
    cr_assert_eq(sl_memory_ops(memories[1])->alloc(memories[1], BYTES, &from), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(memories[0])->alloc(memories[0], BYTES, &to), SEALANE_OK);
    memory_fake_put(memories[1], from, content, BYTES);
    lanes.end[0].place = to;
    lanes_connect(&lanes);
    sl_lane_security(lanes.end[0].lane, &security);
    cr_assert_str_eq(security.bulk_ring, bulk_ring);
    part = (struct sl_part){from, BYTES};
    send = (struct sl_send){.call = 1, .bytes = &byte, .count = 1, .parts = &part, .part_count = 1};
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    cr_assert(lanes_until(&lanes, all_filled), "%llu of %d bytes, server \"%s\"",
              (unsigned long long)lanes.end[0].filled, BYTES, lanes.end[0].close_text);
    memory_fake_get(memories[0], back, to, BYTES);
    cr_assert_eq(memcmp(back, content, BYTES), 0);
    lanes_disconnect(&lanes);
    sl_memory_ops(memories[1])->free(memories[1], from, BYTES);
    sl_memory_ops(memories[0])->free(memories[0], to, BYTES);
    lanes_free(&lanes);
}

Test(lane_device, invariant_12_tensors_come_straight_to_the_device_by_a_dma_buf)
{
    kernel.probe = EBADF;
    carries("dma-buf");
    cr_assert_eq(kernel.dmabufs, 2, "one ring at each end");
}

Test(lane_device, a_ring_begins_where_it_begins_in_its_dma_buf)
{
    kernel.probe = EBADF;
    kernel.offset = ring_offset = 3 * PAGE;
    carries("dma-buf");
}

Test(lane_device, peermem_takes_what_dma_bufs_do_not)
{
    kernel.probe = EOPNOTSUPP;
    kernel.peermem = true;
    carries("peermem");
    cr_assert_eq(kernel.dmabufs, 0);
}

Test(lane_device, rings_are_the_hosts_where_the_device_takes_no_dma_bufs)
{
    kernel.probe = EOPNOTSUPP;
    carries("host");
}

Test(lane_device, rings_are_the_hosts_where_the_dma_buf_is_refused)
{
    kernel.probe = EBADF;
    kernel.dmabuf = EINVAL;
    carries("host");
}

Test(lane_device, rings_are_the_hosts_where_there_is_no_dma_buf)
{
    kernel.probe = EBADF;
    ring_offset = SIZE_MAX;
    carries("host");
}

/* ---- the words ---- */

static void says(const char *words)
{
    struct sl_ring_memory ring;
    struct sl_verbs *verbs;
    struct ibv_mr *mr = NULL;

    lanes_over_verbs(&lanes);
    lanes.memory = make_memory;
    lanes_listen(&lanes);
    lanes_connect(&lanes);
    verbs = (struct sl_verbs *)(void *)lanes.end[1].lane->link;
    cr_assert_eq(
        sl_memory_ops(memories[1])->ring_alloc(memories[1], SL_PLACE_DEVICE, PAGE * 4, &ring),
        SEALANE_OK);
    cr_assert_eq(sl_verbs_register_ring(verbs, &ring, &mr), SEALANE_UNIMPLEMENTED);
    cr_assert_null(mr);
    cr_assert_not_null(strstr(sealane_last_error()->message, words), "%s",
                       sealane_last_error()->message);
    sl_memory_ops(memories[1])->ring_free(memories[1], &ring);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
}

Test(lane_device, says_that_the_device_takes_no_dma_bufs)
{
    kernel.probe = EPROTONOSUPPORT;
    says("takes no dma-bufs; nvidia-peermem is not loaded");
}

Test(lane_device, says_why_a_dma_buf_and_peermem_refused)
{
    kernel.probe = EBADF;
    kernel.dmabuf = ENOMEM;
    kernel.peermem = true;
    kernel.pages = EFAULT;
    says("refuses the dma-buf: Cannot allocate memory; nvidia-peermem refuses it: Bad address");
}

Test(lane_device, says_that_a_ring_has_no_dma_buf)
{
    ring_offset = SIZE_MAX;
    says("it has no dma-buf; nvidia-peermem is not loaded");
}

Test(lane_device, says_that_a_ring_begins_amid_a_page)
{
    kernel.probe = EBADF;
    ring_offset = 100;
    says("it begins amid a page of its dma-buf");
}
