/* SPDX-License-Identifier: Apache-2.0 */
/* memory_scan.c - see memory_scan.h. Memory is read through /proc/self/mem into a window that is not looked at itself; pages that
 * nobody ever touched are left out, as pagemap tells. */
#include "tests/support/memory_scan.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    WINDOW_PAGES = 256,
    ENTRIES = 512 /* of pagemap, read at once */
};

/* Larger mappings are ASan's shadow, which holds no bytes of anybody. */
static const uint64_t mapping_max = (uint64_t)1 << 36;

struct scan {
    struct needle *needles;
    size_t count;
    uint8_t first[256]; /* by first byte: the needle's index + 1; 0: none */
    uint8_t next[NEEDLES_MAX];
    int memory, pagemap;
    uint8_t *window; /* NEEDLE_MAX bytes of the page before, then pages */
    size_t kept;     /* of those NEEDLE_MAX */
    size_t looked_at;
};

struct needle needle_of(const uint8_t *bytes, size_t count)
{
    struct needle needle = {.bytes = count};

    cr_assert(count >= 8 && count <= NEEDLE_MAX);
    for (size_t i = 0; i < count; i++)
        needle.inverted[i] = (uint8_t)~bytes[i];
    return needle;
}

__attribute__((no_sanitize("address"))) static bool stands_at(const struct needle *needle,
                                                              const uint8_t *at)
{
    for (size_t i = 0; i < needle->bytes; i++) {
        if ((at[i] ^ needle->inverted[i]) != 0xff)
            return false;
    }
    return true;
}

/* Needles that stand wholly in [at, end). */
__attribute__((no_sanitize("address"))) static void look(struct scan *scan, const uint8_t *at,
                                                         const uint8_t *end)
{
    for (; at < end; at++) {
        for (unsigned i = scan->first[*at]; i > 0; i = scan->next[i - 1]) {
            struct needle *needle = &scan->needles[i - 1];

            if ((size_t)(end - at) >= needle->bytes && stands_at(needle, at))
                needle->found = true;
        }
    }
}

/* A run of pages that adjoin. What begins in the last bytes of one window is found in the next. */
static void look_at_pages(struct scan *scan, uint64_t from, size_t pages)
{
    while (pages > 0) {
        size_t now = pages < WINDOW_PAGES ? pages : WINDOW_PAGES;
        ssize_t got = pread(scan->memory, scan->window + NEEDLE_MAX, now * PAGE, (off_t)from);
        uint8_t *end = scan->window + NEEDLE_MAX + now * PAGE;

        if (got != (ssize_t)(now * PAGE)) /* it was unmapped meanwhile */
            return;
        look(scan, scan->window + NEEDLE_MAX - scan->kept, end);
        scan->looked_at += now * PAGE;
        scan->kept = NEEDLE_MAX - 1;
        memcpy(scan->window + NEEDLE_MAX - scan->kept, end - scan->kept, scan->kept);
        from += now * PAGE;
        pages -= now;
    }
}

static void look_at_mapping(struct scan *scan, uint64_t from, uint64_t to)
{
    uint64_t entries[ENTRIES];

    while (from < to) {
        size_t pages = (size_t)(to - from) / PAGE, run = 0;

        pages = pages < ENTRIES ? pages : ENTRIES;
        if (pread(scan->pagemap, entries, pages * sizeof(entries[0]),
                  (off_t)(from / PAGE * sizeof(entries[0]))) !=
            (ssize_t)(pages * sizeof(entries[0])))
            return;
        scan->kept = 0;
        for (size_t i = 0; i <= pages; i++) {
            bool there = i < pages && entries[i] >> 62 != 0; /* present or swapped out */

            if (there) {
                run++;
                continue;
            }
            look_at_pages(scan, from + (i - run) * PAGE, run);
            scan->kept = run = 0;
        }
        from += pages * PAGE;
    }
}

static void scan_begin(struct scan *scan)
{
    memset(scan->first, 0, sizeof(scan->first));
    for (size_t i = 0; i < scan->count; i++) {
        uint8_t first = (uint8_t)~scan->needles[i].inverted[0];

        scan->needles[i].found = false;
        scan->next[i] = scan->first[first];
        scan->first[first] = (uint8_t)(i + 1);
    }
    scan->memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    scan->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    /* Shared, or the kernel would make one mapping of it and a neighbour, which is to be looked at. */
    scan->window = mmap(NULL, NEEDLE_MAX + WINDOW_PAGES * PAGE, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(scan->memory >= 0 && scan->pagemap >= 0 && scan->window != MAP_FAILED);
}

static void scan_end(struct scan *scan)
{
    (void)munmap(scan->window, NEEDLE_MAX + WINDOW_PAGES * PAGE);
    (void)close(scan->memory);
    (void)close(scan->pagemap);
}

size_t memory_scan(struct needle *needles, size_t count, const char *only)
{
    struct scan scan = {.needles = needles, .count = count};
    uint64_t from, to, window;
    char line[512], rights[5];
    FILE *maps = fopen("/proc/self/maps", "re");

    cr_assert_not_null(maps);
    cr_assert_leq(count, NEEDLES_MAX - 1);
    scan_begin(&scan);
    window = (uint64_t)(uintptr_t)scan.window;
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3 ||
            rights[0] != 'r' || rights[1] != 'w' || to - from > mapping_max ||
            (window >= from && window < to && !only) || (only && !strstr(line, only)))
            continue;
        look_at_mapping(&scan, from, to);
    }
    (void)fclose(maps);
    scan_end(&scan);
    return scan.looked_at;
}
