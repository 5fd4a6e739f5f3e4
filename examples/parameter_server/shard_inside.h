/* SPDX-License-Identifier: Apache-2.0 */
/* shard_inside.h - what shard.c and shard_steps.c share. */
#ifndef PARAMETER_SERVER_SHARD_INSIDE_H
#define PARAMETER_SERVER_SHARD_INSIDE_H

#include "shard.h"

/* ---- shard.c ---- */

/* The rank's seat, if the call may speak for it; else the call was failed and NULL comes back. */
struct seat *shard_seat(struct shard *shard, struct sealane_call *call, uint32_t rank);

/* The same, of a rank that has joined; of any that ever had once the training is done. */
struct seat *shard_taken_seat(struct shard *shard, struct sealane_call *call, uint32_t rank);
bool shard_is_taken(const struct shard *shard, const struct seat *seat);

/* The tensor's numbers when it is one of this shard; NULL otherwise. */
const float *shard_floats(const struct shard *shard, const Sealane__Tensor *tensor);

/* A reply that the library refuses has been answered with the reason; the training cannot go on without it. */
void shard_must(struct shard *shard, enum sealane_status status);

/* Fails a kept call, if there is one, and forgets it. */
void shard_fail_kept(struct sealane_call **kept, enum sealane_status status, const char *why);

/* Gives who is missing --timeout-s from now. */
void shard_wait_for_workers(struct shard *shard);

/* The last step is made: joins are answered. */
void shard_finish(struct shard *shard);

/* ---- shard_steps.c ---- */

void shard_pull(struct sealane_call *call, const ParameterServer__V1__PullRequest *request,
                void *user);
void shard_push(struct sealane_call *call, const ParameterServer__V1__PushRequest *request,
                void *user);
void shard_enter(struct sealane_call *call, const ParameterServer__V1__EnterRequest *request,
                 void *user);
void shard_commit(struct sealane_call *call, const ParameterServer__V1__CommitRequest *request,
                  void *user);

/* The training began, or somebody joined it: answers the Enters and Pulls that waited for that. */
void shard_answer_kept(struct shard *shard);

/* Shard 0, synchronous: makes the step if it waits for nobody any more. To be called when somebody left. */
void shard_decide(struct shard *shard);

#endif
