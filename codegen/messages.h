/* SPDX-License-Identifier: Apache-2.0 */
/* messages.h - message code, by protobuf-c's own generator run as a child on the rewritten request. */
#ifndef SL_MESSAGES_H
#define SL_MESSAGES_H

#include "codegen/repair.h"
#include "codegen/report.h"

/* Runs protoc-gen-c (on PATH, or beside the protoc-c that is on PATH) and returns the files that it made, their content put
 * right. NULL and a report when it is not found, fails, or dies; then the report names the file it did so on. */
const sl_response *sl_messages_generate(sl_request *request, const struct sl_repairs *repairs,
                                        struct sl_report *report);

#endif
