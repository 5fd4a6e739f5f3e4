/* SPDX-License-Identifier: Apache-2.0 */
/* frame_fuzz.c - any bytes as a frame: 16 of prefix, then a plaintext with its records, BULK bodies among them. */
#include "transport/frame.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Whatever a record claims lies inside the plaintext. */
static void check_record(const uint8_t *text, size_t bytes, const struct sl_record *record)
{
    struct sl_run run;

    if (record->body < text || record->bytes > bytes ||
        (size_t)(record->body - text) > bytes - record->bytes)
        abort();
    if (sl_run_parse(record, 65536, &run) == SEALANE_OK &&
        (run.count == 0 || run.bytes > (uint64_t)run.count * 65536 ||
         run.offset + run.bytes < run.offset))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sl_cursor cursor = {.at = data, .left = bytes};
    const uint8_t *prefix = sl_cursor_take(&cursor, SL_PREFIX_BYTES);
    struct sl_record record;
    size_t sealed;

    if (!prefix)
        return 0;
    if (sl_prefix_parse(prefix, 8192, &sealed) == SEALANE_OK &&
        sealed > 8192 - SL_PREFIX_BYTES - SL_TAG_BYTES)
        abort();
    while (sl_record_next(&cursor, &record))
        check_record(data, bytes, &record);
    return 0;
}
