// SilenceWatch: when the host last heard from each worker, and which workers have been silent for too long (B-16).
//
// This is kept outside the brain and outside the log: a heartbeat changes nothing that a decision depends on. The log
// has the two moments that do matter, the command that reports a silence (WorkerLost) and the one that ends it
// (Heartbeats, RegisterWorker). Replaying the log therefore needs no times of heartbeats.
//
// A worker can be heard only while the host listens. After a restart, after the host was stopped or blocked, and after
// the bus was unreachable, silence counts from the moment at which the host listens again: every worker gets a full
// TTL.
//
// Invariant: the list is sorted by time, the worker that has been silent for longest first.
// Cost: constant for each message. Thread safety: none; the decider owns it.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace rota::host {

class SilenceWatch {
 public:
  // Watches the worker from now on, if it does not yet.
  void add(const std::string& worker, std::int64_t now_ns);
  void remove(const std::string& worker);
  // A message of the worker arrived; nothing if it is not watched.
  void heard(const std::string& worker, std::int64_t now_ns);
  // The host could hear nothing until `now_ns`.
  void listening_since(std::int64_t now_ns) { since_ns_ = now_ns > since_ns_ ? now_ns : since_ns_; }

  // When the next worker will have been silent for `ttl_ns`; the far future if none is watched.
  [[nodiscard]] std::int64_t next_due_ns(std::int64_t ttl_ns) const;
  // Removes and returns a worker that has been silent for `ttl_ns`.
  std::optional<std::string> take_silent(std::int64_t now_ns, std::int64_t ttl_ns);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string worker;
    std::int64_t heard_ns;
  };
  std::list<Entry> entries_;
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_name_;  // The keys are in entries_.
  std::int64_t since_ns_ = 0;
};

}  // namespace rota::host
