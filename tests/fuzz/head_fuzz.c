/* SPDX-License-Identifier: Apache-2.0 */
/* head_fuzz.c - any bytes as a call's message: what its head claims lies inside the bytes, to the byte. */
#include "rpc/codec.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_parts(struct sl_head head, const uint8_t *end)
{
    struct sl_path path;

    for (unsigned p = 0; p < head.part_count; p++) {
        if (sl_head_next_part(&head, &path) == 0 || path.count > SL_PATH_STEPS || head.parts > end)
            abort();
    }
    if (head.parts != end)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sl_head head;
    uint32_t head_bytes, message_bytes;

    if (sl_head_parse(data, bytes, &head) != SEALANE_OK)
        return 0;
    if (sl_head_sizes(data, bytes, &head_bytes, &message_bytes) != SEALANE_OK ||
        (size_t)head_bytes + message_bytes != bytes || head.path_bytes > SL_METHOD_PATH_MAX ||
        (const uint8_t *)head.path + head.path_bytes != head.parts)
        abort();
    check_parts(head, data + head_bytes);
    return 0;
}
