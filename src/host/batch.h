// What goes in at the host's one end and out at the other (host.h has the picture).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bus/bus.h"
#include "fleet/command.h"
#include "fleet/event.h"
#include "fleet/record.h"
#include "rota/fiber/sync.h"
#include "rota/result.h"

namespace rota::fleet {
class State;
}

namespace rota::host {

// A place for an answer. Whoever holds it last answers: if nobody did before, that the host is closed.
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
  bool durable = true;  // Answer when what it saw is.
};

struct Input {
  std::variant<fleet::Command, Inspection, bus::DeliveryFromWorker> what;
  Answer answer{};
};

struct Answered {
  Answer answer;
  Result<fleet::Events> result;
};
struct ToSend {
  std::string worker;
  bus::ToWorker message;
};
struct Said {
  std::string worker;
  bus::Report report;
};
using Effect = std::variant<fleet::Record, Answered, ToSend, Said>;

struct Batch {
  std::uint64_t durable = 0;  // The record that must be.
  std::vector<Effect> effects{};
  std::uint64_t received = 0;  // The last message of a worker that is dealt with; 0: none.
};

}  // namespace rota::host
