// The host's inputs and effects. host.h has the picture.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "bus/bus.h"
#include "fleet/command.h"
#include "fleet/event.h"
#include "fleet/record.h"
#include "model/message.h"
#include "rota/fiber/sync.h"
#include "rota/result.h"

namespace rota::fleet {
class State;
}

namespace rota::host {

// The place where a client waits for its answer. If it is destroyed without an answer, the client gets Closed.
class Answer {
 public:
  struct Place {
    fiber::Event done{};
    Result<fleet::Events> result = ErrorCode::kClosed;
  };

  Answer() = default;
  explicit Answer(std::shared_ptr<Place> place) : place_(std::move(place)) {}
  Answer(Answer&&) noexcept = default;
  Answer& operator=(Answer&& other) noexcept {
    Answer(std::move(other)).place_.swap(place_);
    return *this;
  }
  ~Answer() {
    if (place_ != nullptr) place_->done.set();
  }
  [[nodiscard]] explicit operator bool() const { return place_ != nullptr; }
  void give(Result<fleet::Events> result) {
    if (place_ == nullptr) return;
    place_->result = std::move(result);
    std::exchange(place_, nullptr)->done.set();
  }

 private:
  std::shared_ptr<Place> place_;
};

struct Inspection {
  std::function<void(const fleet::State&)> look;
  bool durable = true;  // Answer only when everything that it saw is durable.
};

// The position of a bus in the host's list of buses.
using Port = std::size_t;

struct Input {
  std::variant<fleet::Command, Inspection, bus::DeliveryFromWorker> what;
  Answer answer{};
  Port port = 0;           // Of a delivery.
  fleet::Origin origin{};  // Of a command.
};

struct Answered {
  Answer answer;
  Result<fleet::Events> result;
};
struct ToSend {
  std::string worker;
  model::ToWorker message;
  std::optional<Port> port{};  // The bus on which the worker was last heard; none: it was not heard yet.
};
// A worker registered or returned, or it left or became unreachable: the bus need not keep anything for it.
struct Presence {
  std::string worker;
  bool here = false;
};
// A report for the observer.
struct Reported {
  std::string worker;
  model::Report report;
};
using Effect = std::variant<fleet::Record, Answered, ToSend, Presence, Reported>;

struct Batch {
  std::uint64_t durable = 0;  // The effects are released when the record with this index is durable.
  std::vector<Effect> effects{};
  std::vector<std::uint64_t> received{};  // The last message of each bus that this batch has handled; 0: none.
  Hash128 chain{};                        // The log's chain after the last record.
};

}  // namespace rota::host
