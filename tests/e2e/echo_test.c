/* SPDX-License-Identifier: Apache-2.0 */
/* echo_test.c - echo-server and echo-client, as a newcomer runs them. */
#include "tests/e2e/parameter_server_process.h"
#include "tests/support/rdma.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct stage stage;
static pid_t server;
static char address[160] = "unix:";

static void begin(void)
{
    const char *arguments[] = {"--certs", stage.folder, "--listen", address, NULL};

    stage_begin(&stage);
    (void)stage_path(&stage, "socket", address + strlen("unix:"));
    server = process_start(&stage, "server.log", "echo-server", arguments);
    cr_assert(log_waits_for(&stage, "server.log", "listening at unix:", 10), "%s",
              log_text(&stage, "server.log"));
}

static void end(void)
{
    cr_assert_eq(kill(server, SIGTERM), 0);
    cr_assert_eq(process_wait(server, 10), 0, "%s", log_text(&stage, "server.log"));
    cr_assert_not_null(strstr(log_text(&stage, "server.log"), "stopped"));
    stage_end(&stage);
}

TestSuite(echo, .init = begin, .fini = end);

/* Runs the client with two more options; returns its exit status. */
static int client(const char *option, const char *value)
{
    const char *arguments[] = {"--certs", stage.folder, "--target", address, option, value, NULL};

    return process_run(&stage, "client.log", "echo-client", arguments);
}

static void check_said(const char *text)
{
    cr_assert_not_null(strstr(log_text(&stage, "client.log"), text), "no \"%s\" in: %s", text,
                       log_text(&stage, "client.log"));
}

Test(echo, says_back_what_it_hears_and_both_sides_show_their_lane)
{
    cr_assert_eq(client("--count", "20"), 0, "%s", log_text(&stage, "client.log"));
    check_said("\"hello\" came back 20 times");
    check_said("peer uri:spiffe://sealane.test/server, TLS_");
    check_said("messages AES-256-GCM, tensors AES-256-GCM, link local");
    cr_assert(
        log_waits_for(&stage, "server.log", "peer uri:spiffe://sealane.test/client, TLS_", 5));
    cr_assert(log_waits_for(&stage, "server.log", "sealane.test/client left: ", 5));
}

Test(echo, sends_a_tensor_there_and_back)
{
    cr_assert_eq(client("--tensor-mib", "5"), 0, "%s", log_text(&stage, "client.log"));
    check_said("tensors of 5 MiB: ");
}

/* With the port that the server found. */
static const char *server_at(const char *host, pid_t *server_p)
{
    static char target[96], listen[96];
    const char *arguments[] = {"--certs", stage.folder, "--listen", listen, NULL};
    const char *said;

    (void)snprintf(listen, sizeof(listen), "%s:0", host);
    *server_p = process_start(&stage, "port.log", "echo-server", arguments);
    cr_assert(log_waits_for(&stage, "port.log", "listening at ", 10), "%s",
              log_text(&stage, "port.log"));
    said = strstr(log_text(&stage, "port.log"), host);
    cr_assert_not_null(said, "%s", log_text(&stage, "port.log"));
    (void)snprintf(target, sizeof(target), "%.*s", (int)strcspn(said, "\n"), said);
    return target;
}

Test(echo, at_a_port_takes_local_by_itself_and_tcp_when_told_to)
{
    pid_t at_port;
    const char *target = server_at("127.0.0.1", &at_port);
    const char *by_itself[] = {"--certs", stage.folder, "--target", target, NULL};
    const char *told[] = {"--certs", stage.folder, "--target", target, "--link", "tcp", NULL};

    cr_assert_eq(process_run(&stage, "client.log", "echo-client", by_itself), 0, "%s",
                 log_text(&stage, "client.log"));
    check_said("link local");
    cr_assert_eq(process_run(&stage, "client.log", "echo-client", told), 0, "%s",
                 log_text(&stage, "client.log"));
    check_said("link tcp");
    cr_assert_eq(kill(at_port, SIGTERM), 0);
    cr_assert_eq(process_wait(at_port, 10), 0, "%s", log_text(&stage, "port.log"));
}

Test(echo, at_an_address_of_an_rdma_device_takes_verbs_when_told_to)
{
    pid_t at_port;
    const char *target;

    if (!rdma_host()[0])
        cr_skip_test("this host has no RDMA device with an address");
    target = server_at(rdma_host(), &at_port);
    const char *told[] = {"--certs", stage.folder, "--target", target, "--link", "verbs", NULL};
    const char *tensors[] = {"--certs", stage.folder,   "--target", target, "--link",
                             "verbs",   "--tensor-mib", "5",        NULL};
    cr_assert_eq(process_run(&stage, "client.log", "echo-client", told), 0, "%s",
                 log_text(&stage, "client.log"));
    check_said("link verbs");
    cr_assert_eq(process_run(&stage, "client.log", "echo-client", tensors), 0, "%s",
                 log_text(&stage, "client.log"));
    check_said("tensors of 5 MiB: ");
    cr_assert_eq(kill(at_port, SIGTERM), 0);
    cr_assert_eq(process_wait(at_port, 10), 0, "%s", log_text(&stage, "port.log"));
}

Test(echo, refuses_a_server_of_another_name)
{
    cr_assert_eq(client("--server-name", "dns:stranger.test"), 1);
    check_said("UNAUTHENTICATED");
    check_said("DNS:stranger.test");
}

Test(echo, tells_that_no_server_is_there)
{
    cr_assert_eq(client("--target", "unix:/nowhere/socket"), 1);
    check_said("unix:/nowhere/socket: UNAVAILABLE: ");
}

Test(echo, explains_its_options_when_one_is_wrong)
{
    cr_assert_eq(client("--count", "many"), 2);
    check_said("\"many\" is no number");
    check_said("usage: echo-client");
}
