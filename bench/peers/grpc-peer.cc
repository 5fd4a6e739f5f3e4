// SPDX-License-Identifier: Apache-2.0
// grpc-peer.cc - the same calls by gRPC C++ over mutual TLS: completion queues at both ends, one thread each (the fastest of its
// APIs here), message limits raised, an echo that hands over the request's bytes instead of copying them.
#include "bench.grpc.pb.h"
#include "run.h"

#include <fstream>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <memory>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

using bench::v1::Ack;
using bench::v1::Bench;
using bench::v1::Blob;
using bench::v1::Load;

namespace {

std::string file(const bench_options &options, const std::string &name)
{
    std::ifstream in(std::string(options.certs) + "/" + name);
    std::stringstream text;

    text << in.rdbuf();
    if (!in || text.str().empty())
        bench_die("cannot read", name.c_str());
    return text.str();
}

// ---- server ----

void answer(Blob &request, Blob &reply)
{
    reply.mutable_data()->swap(*request.mutable_data());
}

void answer(Load &request, Ack &reply)
{
    reply.set_bytes(request.tensor().data().size());
}

struct Step {
    virtual ~Step() = default;
    virtual void next(bool ok) = 0;
};

template <class Request, class Reply> class Served final : public Step {
  public:
    using Ask = void (Bench::AsyncService::*)(grpc::ServerContext *, Request *,
                                              grpc::ServerAsyncResponseWriter<Reply> *,
                                              grpc::CompletionQueue *,
                                              grpc::ServerCompletionQueue *, void *);

    Served(Bench::AsyncService &service, grpc::ServerCompletionQueue &queue, Ask ask)
        : service(service), queue(queue), ask(ask)
    {
        (service.*ask)(&context, &request, &writer, &queue, &queue, this);
    }

    void next(bool ok) override
    {
        if (!ok || answered) {
            delete this;
            return;
        }
        new Served(service, queue, ask);
        answer(request, reply);
        answered = true;
        writer.Finish(reply, grpc::Status::OK, this);
    }

  private:
    Bench::AsyncService &service;
    grpc::ServerCompletionQueue &queue;
    Ask ask;
    grpc::ServerContext context;
    Request request;
    Reply reply;
    grpc::ServerAsyncResponseWriter<Reply> writer{&context};
    bool answered = false;
};

void serve(const bench_options &options)
{
    grpc::SslServerCredentialsOptions tls(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    grpc::ServerBuilder builder;
    Bench::AsyncService service;
    int port = 0;

    tls.pem_root_certs = file(options, "ca.pem");
    tls.pem_key_cert_pairs.push_back({file(options, "server.key"), file(options, "server.pem")});
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    builder.AddListeningPort(options.address, grpc::SslServerCredentials(tls), &port);
    builder.RegisterService(&service);
    auto queue = builder.AddCompletionQueue();
    auto server = builder.BuildAndStart();
    if (!server || port == 0)
        bench_die("gRPC", "the server does not start");
    for (uint32_t i = 0; i < 2 * options.outstanding; i++) {
        new Served<Blob, Blob>(service, *queue, &Bench::AsyncService::RequestEcho);
        new Served<Load, Ack>(service, *queue, &Bench::AsyncService::RequestPut);
    }
    bench_ready(("127.0.0.1:" + std::to_string(port)).c_str());
    void *step;
    bool ok;
    while (queue->Next(&step, &ok))
        static_cast<Step *>(step)->next(ok);
}

// ---- client ----

std::shared_ptr<grpc::Channel> connect(const bench_options &options)
{
    grpc::SslCredentialsOptions tls;
    grpc::ChannelArguments arguments;

    tls.pem_root_certs = file(options, "ca.pem");
    tls.pem_private_key = file(options, "client.key");
    tls.pem_cert_chain = file(options, "client.pem");
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    auto channel =
        grpc::CreateCustomChannel(options.address, grpc::SslCredentials(tls), arguments);
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)))
        bench_die("gRPC", "no connection");
    return channel;
}

struct Unary {
    using Reply = Blob;
    std::vector<Blob> requests;

    explicit Unary(uint64_t bytes) : requests(1)
    {
        requests[0].set_data(std::string(bytes, '\x5a'));
    }
    static auto start(Bench::Stub &stub, grpc::ClientContext *context, const Blob &request,
                      grpc::CompletionQueue *queue)
    {
        return stub.AsyncEcho(context, request, queue);
    }
    static uint64_t bytes(const Blob &reply) { return reply.data().size(); }
};

struct Tensor {
    using Reply = Ack;
    std::vector<Load> requests;

    explicit Tensor(uint64_t bytes) : requests(bench_sources(bytes))
    {
        for (auto &request : requests) {
            request.mutable_tensor()->set_dtype(sealane::DTYPE_U8);
            request.mutable_tensor()->add_shape(bytes);
            request.mutable_tensor()->set_data(std::string(bytes, '\x5a'));
        }
    }
    static auto start(Bench::Stub &stub, grpc::ClientContext *context, const Load &request,
                      grpc::CompletionQueue *queue)
    {
        return stub.AsyncPut(context, request, queue);
    }
    static uint64_t bytes(const Ack &reply) { return reply.bytes(); }
};

template <class Shape> class Flights {
  public:
    Flights(const bench_options &options, Bench::Stub &stub)
        : options(options), stub(stub), shape(options.bytes), flights(options.outstanding)
    {
    }

    void fly()
    {
        uint32_t flying = options.outstanding;
        void *tag;
        bool ok;

        bench_window_begin(&window, &options);
        for (auto &flight : flights)
            launch(flight);
        while (flying > 0 && queue.Next(&tag, &ok)) {
            Flight &flight = *static_cast<Flight *>(tag);

            if (!flight.status.ok() || Shape::bytes(flight.reply) != options.bytes)
                bench_die("gRPC", flight.status.error_message().c_str());
            if (bench_answered(&window, flight.begun_s))
                launch(flight);
            else
                flying--;
        }
        bench_window_end(&window);
    }

  private:
    struct Flight {
        std::unique_ptr<grpc::ClientContext> context;
        std::unique_ptr<grpc::ClientAsyncResponseReader<typename Shape::Reply>> reader;
        typename Shape::Reply reply;
        grpc::Status status;
        double begun_s;
    };

    void launch(Flight &flight)
    {
        flight.context.reset(new grpc::ClientContext);
        flight.begun_s = window.now_s;
        flight.reader = Shape::start(stub, flight.context.get(),
                                     shape.requests[launched++ % shape.requests.size()], &queue);
        flight.reader->Finish(&flight.reply, &flight.status, &flight);
    }

    const bench_options &options;
    Bench::Stub &stub;
    Shape shape;
    std::vector<Flight> flights;
    grpc::CompletionQueue queue;
    uint64_t launched = 0;
    bench_window window;
};

} // namespace

int main(int argc, char **argv)
{
    bench_options options;

    bench_options_parse(&options, argc, argv);
    if (!options.role)
        bench_die("grpc-peer", "it is run by bench/unary and bench/tensor");
    bench_place(&options);
    // Large buffers are used again instead of coming as fresh pages each time.
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (std::string(options.role) == "server") {
        serve(options);
        return 0;
    }
    auto stub = Bench::NewStub(connect(options));
    if (std::string(options.shape) == "tensor")
        Flights<Tensor>(options, *stub).fly();
    else
        Flights<Unary>(options, *stub).fly();
    fflush(stdout);
    _exit(0); // gRPC's own end takes longer than a measurement
}
