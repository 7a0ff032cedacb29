// The control socket: its frames, its answers, and what it refuses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/control_protocol.h"
#include "host/control_server.h"
#include "host/host_testing.h"
#include "net/stream.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

constexpr std::chrono::seconds kSoon{60};

// A stream that gives its bytes one at a time and keeps what is written.
class OneByOne final : public net::ByteStream {
 public:
  explicit OneByOne(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<std::size_t> read_some(std::span<char> buffer, net::Deadline) override {
    if (at_ == bytes_.size() || buffer.empty()) return std::size_t{0};
    buffer[0] = bytes_[at_++];
    return std::size_t{1};
  }
  Result<void> write_all(std::string_view bytes, net::Deadline) override {
    written += bytes;
    return {};
  }
  Result<void> shutdown_write(net::Deadline) override { return {}; }
  void close() override {}
  [[nodiscard]] std::string peer() const override { return "test"; }

  std::string written;

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

TEST(ControlProtocol, Frames) {
  OneByOne out("");
  ASSERT_TRUE(write_frame(out, "hello", {}).ok());
  EXPECT_EQ(out.written, std::string("\0\0\0\5hello", 9));
  for (std::size_t cut = 0; cut <= out.written.size(); ++cut) {
    OneByOne in(out.written.substr(0, cut));
    const Result<std::string> content = read_frame(in, {});
    if (cut == out.written.size()) {
      EXPECT_EQ(content.value(), "hello");
    } else {
      EXPECT_EQ(content.code(), ErrorCode::kClosed) << cut;
    }
  }
  OneByOne empty(std::string("\0\0\0\0", 4));
  EXPECT_EQ(read_frame(empty, {}).code(), ErrorCode::kCorrupt);
  OneByOne long_one(std::string("\x01\0\0\x01", 4));
  EXPECT_EQ(read_frame(long_one, {}).code(), ErrorCode::kTooLarge);
  EXPECT_EQ(write_frame(out, std::string(kMostFrameBytes + 1, 'x'), {}).code(), ErrorCode::kTooLarge);
}

TEST(ControlProtocol, ValuesAndVersions) {
  const ControlRequest request = Execute{fleet::Control{fleet::Action::kCancel, WorkflowId(7), {}}};
  std::string bytes = encode_control(request);
  EXPECT_EQ(encode_control(decode_control_request(bytes).value()), bytes);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(decode_control_request(bytes.substr(0, cut)).ok()) << cut;
  }
  bytes[0] = 9;
  const Result<ControlRequest> other = decode_control_request(bytes);
  EXPECT_EQ(other.code(), ErrorCode::kUnsupported);
  EXPECT_NE(other.error().message.find("version 9"), std::string::npos);

  const Error error = Error{ErrorCode::kOverloaded, "later"}.with("retry_after_ms", "5000");
  const ControlAnswer answer = decode_control_answer(encode_control(ControlAnswer::refusal(error))).value();
  EXPECT_EQ(answer.status().error(), error);
  ControlAnswer strange;
  strange.code = 65'000;  // Of a later release.
  EXPECT_EQ(strange.status().code(), ErrorCode::kInternal);
  EXPECT_TRUE(ControlAnswer().status().ok());
}

// A host with a control socket in a folder of its own.
struct Served {
  Served() : folder("/tmp/rota-control-" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder);
    std::filesystem::remove(path());
  }
  ~Served() { std::filesystem::remove_all(folder); }
  [[nodiscard]] std::string path() const { return folder + "/control.sock"; }
  [[nodiscard]] net::Endpoint endpoint() const { return {.host = {}, .port = 0, .unix_path = path()}; }
  std::string folder;
};

// Contract: C-2, H-6. Commands of a user are executed, others are refused; a wait ends with the workflow.
TEST(ControlServer, Answers) {
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([] {
    const Served served;
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions of = options();
    of.follow = true;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, of);
      const auto listener = net::real_network().listen(served.endpoint()).value();
      ControlServer server(running.host, *listener);
      auto serving = nursery.spawn([&] { server.run(); });
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");

      const auto stream = net::real_network().connect(served.endpoint(), kSoon).value();
      EXPECT_TRUE(call(*stream, Ping{}, kSoon).ok());
      EXPECT_EQ(call(*stream, Execute{fleet::WorkerLost{"w", "no"}}, kSoon).code(), ErrorCode::kPermissionDenied);
      EXPECT_EQ(call(*stream, AwaitEnd{WorkflowId(1), 10}, kSoon).code(), ErrorCode::kNotFound);
      model::WorkflowSpec spec = chain({"a", "b"});
      spec.templates.push_back(spec.templates[0]);
      spec.templates[1].needs.cpu_millis = 99'000;
      spec.stages[1].use = 1;
      const ControlAnswer accepted = call(*stream, Execute{fleet::SubmitWorkflow{"k", spec}}, kSoon).value();
      EXPECT_EQ(accepted.workflow, WorkflowId(1));
      ASSERT_EQ(accepted.warnings.size(), 1U);
      EXPECT_NE(accepted.warnings[0].find("'b'"), std::string::npos) << accepted.warnings[0];
      EXPECT_EQ(call(*stream, Execute{fleet::SubmitWorkflow{"k", spec}}, kSoon).code(), ErrorCode::kAlreadyExists);
      EXPECT_EQ(call(*stream, Execute{fleet::SubmitWorkflow{"schedule/a/2026-11-18T11:49:00Z", spec}}, kSoon).code(),
                ErrorCode::kInvalidArgument);
      EXPECT_EQ(call(*stream, AwaitEnd{WorkflowId(1), 10}, kSoon)->outcome, Outcome::kRunning);

      auto waiting = nursery.spawn([&] {
        const auto other = net::real_network().connect(served.endpoint(), kSoon).value();
        return call(*other, AwaitEnd{WorkflowId(1), 60'000}, kSoon)->outcome;
      });
      (void)puppet.next_assign();
      ASSERT_TRUE(call(*stream, Execute{fleet::Control{fleet::Action::kCancel, WorkflowId(1), {}}}, kSoon).ok());
      for (;;) {
        const model::ToWorker message = puppet.next();
        if (const auto* stop = std::get_if<model::ControlAttempt>(&message)) {
          puppet.report_end({.id = stop->id, .term = stop->term, .assigned_ns = stop->assigned_ns},
                            AttemptEnd::kCancelled);
          break;
        }
      }
      EXPECT_EQ(waiting.get(), Outcome::kCancelled);

      server.refuse_submissions();
      EXPECT_EQ(call(*stream, Execute{fleet::SubmitWorkflow{"l", spec}}, kSoon).code(), ErrorCode::kUnavailable);
      // Bytes that are no request: an answer, and the connection ends.
      const auto wild = net::real_network().connect(served.endpoint(), kSoon).value();
      ASSERT_TRUE(write_frame(*wild, "\xff\xff", kSoon).ok());
      const Result<std::string> refusal = read_frame(*wild, kSoon);
      ASSERT_TRUE(refusal.ok());
      EXPECT_EQ(decode_control_answer(*refusal)->status().code(), ErrorCode::kUnsupported);
      EXPECT_FALSE(read_frame(*wild, kSoon).ok());
      running.stop();
      listener->close();
      serving.wait();
    });
  });
}

// Contract: H-6. Clients that wait for the end of a workflow keep nobody from being served; beyond a bound a client is
// answered at once; all of them hear of the end.
TEST(ControlServer, ClientsThatWaitDelayNobody) {
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([] {
    const Served served;
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions of = options();
    of.follow = true;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, of);
      const auto listener = net::real_network().listen(served.endpoint()).value();
      ControlServer server(running.host, *listener, 1, 3);  // One is served at a time, three may wait.
      auto serving = nursery.spawn([&] { server.run(); });
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      accepted(running.host.execute(fleet::SubmitWorkflow{"2", chain({"a"})}));

      const auto connect = [&] { return net::real_network().connect(served.endpoint(), kSoon).value(); };
      const std::string await_first = encode_control(AwaitEnd{WorkflowId(1), 60'000});
      std::vector<std::unique_ptr<net::ByteStream>> waiting;
      for (int i = 0; i < 3; ++i) {
        waiting.push_back(connect());
        ASSERT_TRUE(write_frame(*waiting.back(), await_first, kSoon).ok());
      }
      EXPECT_TRUE(call(*connect(), Ping{}, kSoon).ok());
      // Connections are served in their order: the three wait now.
      EXPECT_EQ(call(*connect(), AwaitEnd{WorkflowId(1), 60'000}, kSoon)->outcome, Outcome::kRunning);

      puppet.report_end(puppet.next_assign(), AttemptEnd::kSucceeded);
      for (auto& stream : waiting) {
        const Result<std::string> answer = read_frame(*stream, kSoon);
        ASSERT_TRUE(answer.ok());
        EXPECT_EQ(decode_control_answer(*answer)->outcome, Outcome::kSucceeded);
        stream.reset();
      }
      // When the host stops, a client that waits hears that.
      const auto last = connect();
      ASSERT_TRUE(write_frame(*last, encode_control(AwaitEnd{WorkflowId(2), 60'000}), kSoon).ok());
      EXPECT_TRUE(call(*connect(), Ping{}, kSoon).ok());
      running.stop();
      const Result<std::string> answer = read_frame(*last, kSoon);
      ASSERT_TRUE(answer.ok());
      EXPECT_EQ(decode_control_answer(*answer)->status().code(), ErrorCode::kUnavailable);
      listener->close();
      serving.wait();
    });
  });
}

}  // namespace
}  // namespace rota::host
