/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - numeric addresses, parsed and written. */
#include "transport/address.h"

#include "transport/status.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PORT_DIGITS = 5,
    PORT_MAX = 65535
};

static const char digits[] = "0123456789";

/* By the form of its host: well or badly formed, such an address is nobody else's. */
bool sl_address_is_numeric(const char *address)
{
    size_t host = strspn(address, "0123456789.");

    if (address[0] == '[')
        return true;
    return memchr(address, '.', host) != NULL && (address[host] == ':' || address[host] == '\0');
}

static SEALANE_RESULT malformed(const char *address, const char *what)
{
    return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                   "the address \"%.100s\" has %s, expected 1.2.3.4:7000 or [::1]:7000", address,
                   what);
}

/* ":7000" at the end of an address. */
static bool port_parse(const char *text, in_port_t *port_p)
{
    size_t count = strspn(text + (text[0] == ':'), digits);
    unsigned long number;

    if (text[0] != ':' || count == 0 || count > PORT_DIGITS || text[1 + count] != '\0')
        return false;
    number = strtoul(text + 1, NULL, 10);
    *port_p = htons((in_port_t)number);
    return number <= PORT_MAX;
}

/* An interface by name or number. */
static bool scope_parse(const char *text, uint32_t *scope_p)
{
    size_t count = strspn(text, digits);

    *scope_p = if_nametoindex(text);
    if (*scope_p == 0 && count > 0 && count <= 9 && text[count] == '\0')
        *scope_p = (uint32_t)strtoul(text, NULL, 10);
    return *scope_p != 0;
}

static SEALANE_RESULT ipv6_parse(const char *address, struct sockaddr_in6 *at)
{
    const char *end = strchr(address, ']');
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
    char *percent;

    if (!end || (size_t)(end - address) > sizeof(host))
        return malformed(address, end ? "too long a host" : "no ]");
    (void)snprintf(host, sizeof(host), "%.*s", (int)(end - address - 1), address + 1);
    percent = strchr(host, '%');
    if (percent)
        *percent = '\0';
    at->sin6_family = AF_INET6;
    if (inet_pton(AF_INET6, host, &at->sin6_addr) != 1)
        return malformed(address, "a host that is no IPv6 address");
    if (percent && !scope_parse(percent + 1, &at->sin6_scope_id))
        return malformed(address, "an interface that is not there");
    if (!port_parse(end + 1, &at->sin6_port))
        return malformed(address, "no port of 0 to 65535 after the ]");
    return SEALANE_OK;
}

static SEALANE_RESULT ipv4_parse(const char *address, struct sockaddr_in *at)
{
    size_t bytes = strcspn(address, ":");
    char host[INET_ADDRSTRLEN];

    if (bytes >= sizeof(host))
        return malformed(address, "too long a host");
    (void)snprintf(host, sizeof(host), "%.*s", (int)bytes, address);
    at->sin_family = AF_INET;
    if (inet_pton(AF_INET, host, &at->sin_addr) != 1)
        return malformed(address, "a host that is no IPv4 address");
    if (!port_parse(address + bytes, &at->sin_port))
        return malformed(address, "no port of 0 to 65535");
    return SEALANE_OK;
}

SEALANE_RESULT sl_address_parse(const char *address, struct sockaddr_storage *at_p,
                                socklen_t *bytes_p)
{
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};

    memset(at_p, 0, sizeof(*at_p));
    if (address[0] == '[') {
        SL_TRY(ipv6_parse(address, &ipv6));
        memcpy(at_p, &ipv6, sizeof(ipv6));
        *bytes_p = sizeof(ipv6);
    } else {
        SL_TRY(ipv4_parse(address, &ipv4));
        memcpy(at_p, &ipv4, sizeof(ipv4));
        *bytes_p = sizeof(ipv4);
    }
    return SEALANE_OK;
}

void sl_address_write(const struct sockaddr *at, char to[SL_ADDRESS_BYTES])
{
    bool ipv6 = at->sa_family == AF_INET6;
    socklen_t bytes = ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1], port[PORT_DIGITS + 1];

    if (getnameinfo(at, bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        (void)snprintf(to, SL_ADDRESS_BYTES, "an unknown address");
    else
        (void)snprintf(to, SL_ADDRESS_BYTES, ipv6 ? "[%s]:%s" : "%s:%s", host, port);
}
