/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - what worker 0, or a run alone, tells: a line an epoch, the CSV learning curve, and the result. */
#ifndef PARAMETER_SERVER_PROGRESS_H
#define PARAMETER_SERVER_PROGRESS_H

#include "trainer.h"

#include <stdio.h>

/* What carried the tensors. */
struct carriage {
    char aead[32]; /* "none" for a run alone */
    char link[16];
    uint64_t sealed_bytes, opened_bytes; /* by this worker, all shards together */
    size_t shards;
};

struct progress {
    FILE *csv; /* NULL: none */
    double last_s;
    uint64_t last_step;
    double accuracy; /* of the last report; below 0: never judged */
};

/* Opens the CSV file and prints what is about to be trained. Prints why and returns false when it cannot. */
bool progress_begin(struct progress *progress, const struct trainer *trainer);

/* An epoch ended: judges the weights, prints a line and a CSV row. */
void progress_epoch(struct progress *progress, struct trainer *trainer,
                    const struct carriage *carriage);

/* The training ended, or was `interrupted`: prints the result. Closes the CSV; false, with a line, when it could not be written. */
bool progress_end(struct progress *progress, struct trainer *trainer,
                  const struct carriage *carriage, bool interrupted);

#endif
