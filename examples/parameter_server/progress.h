/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - what one worker, or a run alone, tells: a line an epoch, the CSV learning curve, and the result. It is worker 0 as
 * long as that lives, then the lowest rank that does. */
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
    uint64_t pushed_bytes, pulled_bytes;
    double push_speed, pull_speed; /* bytes a second, of this worker */
    double all_push_speed, all_pull_speed;
};

struct progress {
    bool open;
    FILE *csv; /* NULL: none */
    double last_s;
    uint64_t last_step;
    double accuracy; /* of the last report; below 0: never judged */
};

/* Prints what is about to be trained. */
void progress_introduce(const struct trainer *trainer);

/* To be called before what follows. Begins the CSV file, or, not `fresh`, goes on with another's. Prints why and returns false when
 * it cannot. */
bool progress_open(struct progress *progress, const struct trainer *trainer, bool fresh);

/* An epoch ended: judges the weights, prints a line and a CSV row. */
void progress_epoch(struct progress *progress, struct trainer *trainer,
                    const struct carriage *carriage);

/* What a worker other than the reporting one tells of its tensors. */
void progress_speed(const char *who, const struct carriage *carriage);

/* The training ended, or was `interrupted`: prints the result. Closes the CSV; false, with a line, when it could not be written. */
bool progress_end(struct progress *progress, struct trainer *trainer,
                  const struct carriage *carriage, bool interrupted);

#endif
