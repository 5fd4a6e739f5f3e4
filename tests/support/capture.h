/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - records what crosses a carrier, and looks in it for markers as they are, in hexadecimal and in base64. Four ways to
 * record: by hand (a tap), as packets on the loopback interface, as all packets of a network device, or as a relay that a TCP client
 * connects to instead. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CAPTURE_STREAMS = 4, /* bytes of one stream are contiguous: a marker is found across packets */
    MARKER_MAX = 48
};

struct capture {
    pthread_mutex_t lock;
    struct {
        uint8_t *bytes;
        size_t count, size;
    } streams[CAPTURE_STREAMS];

    /* packets and relay: streams 0 and 1 are client to server and back */
    pthread_t thread;
    atomic_bool stop;
    int fd;
    int server_port, relay_port;
    bool device;             /* all of a network device is recorded */
    atomic_uint rdma_frames; /* of RoCE v2 (UDP port 4791), of a device */
    unsigned dropped;        /* packets that the kernel had no room for */
};

void capture_init(struct capture *capture);
void capture_free(struct capture *capture);
void capture_add(struct capture *capture, unsigned stream, const void *bytes, size_t count);
size_t capture_count(struct capture *capture); /* bytes of all streams */

/* Every TCP byte on loopback from or to 127.0.0.1:port, by AF_PACKET. False when this process may not (CAP_NET_RAW). */
bool capture_packets(struct capture *capture, int port);

/* Every packet that leaves (stream 0) or enters (stream 1) a network device, with its headers. False as above. */
bool capture_device(struct capture *capture, const char *device);

/* Listens at 127.0.0.1:capture->relay_port and passes on to 127.0.0.1:port. One connection at a time. */
void capture_relay(struct capture *capture, int port);

/* Ends either, after what is under way was recorded. */
void capture_stop(struct capture *capture);

/* What is looked for: a text or random bytes. */
struct marker {
    const char *what;
    uint8_t bytes[MARKER_MAX];
    size_t count;
};

/* "MESSAGE" and 24 random letters, or 32 random bytes. */
struct marker marker_text(const char *what);
struct marker marker_bytes(const char *what);
struct marker marker_of(const char *what, const char *text);

/* The form in which it was found ("as it is", "hexadecimal", "base64"), NULL when it was not. */
const char *capture_find(struct capture *capture, const struct marker *marker);

/* Looks for every 16 bytes of `bytes` that begin at a multiple of 16. Where they begin that are there as they are, -1 when none are. */
long capture_find_piece(struct capture *capture, const uint8_t *bytes, size_t count);

/* Every form in which capture_find looks, NUL-terminated where it is text: for positive controls. */
enum {
    MARKER_FORMS = 6,
    MARKER_FORM_BYTES = 2 * MARKER_MAX + 1
};
size_t marker_form(const struct marker *marker, unsigned form, uint8_t to[MARKER_FORM_BYTES]);

#endif
