/* SPDX-License-Identifier: Apache-2.0 */
/* sealane_status.h - what a call, or any function of sealane, can answer, and why.
 *
 * The codes are gRPC's seventeen with gRPC's numbers (github.com/grpc/grpc doc/statuscodes.md), so a
 * status means to a gRPC user what it always meant. Functions that can fail return SEALANE_RESULT,
 * which the compiler insists is looked at. After a failure sealane_last_error() tells the calling
 * thread where the failure was first decided and why, until that thread's next failure.
 */
#ifndef SEALANE_STATUS_H
#define SEALANE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SEALANE_API          __attribute__((visibility("default")))
#define SEALANE_MUST_USE     __attribute__((warn_unused_result))
#define SEALANE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define SEALANE_API
#define SEALANE_MUST_USE
#define SEALANE_PRINTF(f, a)
#endif

/* X(name, number, text). The numbers travel on the wire. */
#define SEALANE_STATUS_MAP(X)                                                               \
    X(OK, 0, "ok")                                                                          \
    X(CANCELLED, 1, "cancelled, usually by the caller")                                     \
    X(UNKNOWN, 2, "the far side failed without saying how")                                 \
    X(INVALID_ARGUMENT, 3, "an argument is wrong whatever the state of the system")         \
    X(DEADLINE_EXCEEDED, 4, "the deadline passed first")                                    \
    X(NOT_FOUND, 5, "what was asked for is not there")                                      \
    X(ALREADY_EXISTS, 6, "what was to be made is there already")                            \
    X(PERMISSION_DENIED, 7, "the caller is known but may not do this")                      \
    X(RESOURCE_EXHAUSTED, 8, "a limit or the memory is used up")                            \
    X(FAILED_PRECONDITION, 9, "the system is not in the state that this needs")             \
    X(ABORTED, 10, "given up because of a conflict")                                        \
    X(OUT_OF_RANGE, 11, "past the valid range")                                             \
    X(UNIMPLEMENTED, 12, "not implemented or not enabled")                                  \
    X(INTERNAL, 13, "an invariant broke: a bug")                                            \
    X(UNAVAILABLE, 14, "the peer cannot be reached now; whether the call ran is not known") \
    X(DATA_LOSS, 15, "data was lost or damaged for good")                                   \
    X(UNAUTHENTICATED, 16, "a peer did not prove who it is")

enum sealane_status {
#define X(name, number, text) SEALANE_##name = (number),
    SEALANE_STATUS_MAP(X)
#undef X
};

#define SEALANE_RESULT SEALANE_MUST_USE enum sealane_status

struct sealane_error {
    enum sealane_status status;
    int cause; /* errno or the library's own code where one stood behind it; else 0 */
    const char *
        file; /* where this thread recorded it: where it was decided, or, for what a peer or the node's thread decided,
                         where that was passed on; a string constant */
    int line;
    char message[512]; /* one line of text, NUL-terminated: what was seen and what was expected */
};

/* The name ("UNAVAILABLE") and the English text of a status. Never NULL: "UNKNOWN" for other values. */
SEALANE_API const char *sealane_status_name(enum sealane_status status);
SEALANE_API const char *sealane_status_text(enum sealane_status status);

/* The calling thread's last failure. Valid until that thread's next failure. Never NULL. */
SEALANE_API const struct sealane_error *sealane_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
