// OrderTree: classes of ready tasks. It finds the first one in the ready order that satisfies a condition, without a
// look at all of them, at any time.
//
// The order changes with time, because a task that waits gains priority in steps (B-4). With b the base priority, s the
// ready time, i the aging interval and g the boost, the effective priority at time t is
//
//   b + floor((t - s) / i) * g  =  (b - floor(s / i) * g) + floor(t / i) * g - (g if s mod i > t mod i)
//                                   `level`, fixed           the same for all    depends on the `phase`, s mod i
//
// So there are two groups at any time: classes whose phase has passed in the present interval, and the others. Inside
// each group the order is fixed. The tree is sorted by phase, and each node knows the first class of its subtree in
// that fixed order: the first of a group is found on one path, and the two are compared.
//
// Each node also knows the least demands in its subtree, so that a search for a worker passes over what cannot fit.
//
// It is a treap whose shape follows from the numbers of its nodes. Cost of a change: O(log classes).
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fleet/draw.h"
#include "fleet/placement_index_types.h"

namespace rota::fleet {

// What a subtree needs at least, or what a worker has at most.
struct Room {
  std::int64_t cpu_millis = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t gpus = 0;

  [[nodiscard]] bool within(const Room& room) const {
    return cpu_millis <= room.cpu_millis && memory_bytes <= room.memory_bytes && gpus <= room.gpus;
  }
  void reduce_to(const Room& other) {
    cpu_millis = std::min(cpu_millis, other.cpu_millis);
    memory_bytes = std::min(memory_bytes, other.memory_bytes);
    gpus = std::min(gpus, other.gpus);
  }
};

// The place of a class in the order among those of its group.
struct OrderKey {
  std::int64_t level = 0;
  bool started = false;
  ReadyEntry head{};

  friend bool operator<(const OrderKey& a, const OrderKey& b) {
    if (a.level != b.level) return a.level > b.level;
    if (a.started != b.started) return a.started;
    return a.head < b.head;
  }
};

class OrderTree {
 public:
  using Ref = std::uint32_t;
  static constexpr Ref kNone = 0;
  struct Item {
    OrderKey key{};
    std::int64_t phase = 0;
    Room needs{};
    ShapeRef shape = kNoShape;
    const ClassKey* klass = nullptr;  // Stays where it is while the item is in the tree.
  };

  Ref insert(const Item& item) {
    Ref at = kNone;
    if (free_.empty()) {
      at = static_cast<Ref>(nodes_.size());
      nodes_.emplace_back();
    } else {
      at = free_.back();
      free_.pop_back();
    }
    nodes_[at] = Node{item, kNone, kNone, at, item.needs};
    Ref left = kNone;
    Ref right = kNone;
    split(root_, at, left, right);
    root_ = merge(merge(left, at), right);
    return at;
  }
  void erase(Ref at) {
    root_ = erase_from(root_, at);
    free_.push_back(at);
  }
  // The class has another head, of the same level and phase.
  void set_head(Ref at, const ReadyEntry& head) {
    nodes_[at].item.key.head = head;
    update_path(root_, at);
  }
  [[nodiscard]] const Item& item(Ref at) const { return nodes_[at].item; }
  [[nodiscard]] bool empty() const { return root_ == kNone; }
  // False if no item fits the room.
  [[nodiscard]] bool may_fit(const Room& room) const { return root_ != kNone && nodes_[root_].least.within(room); }
  // The item, if there is exactly one; otherwise null.
  [[nodiscard]] const Item* only_item() const {
    const Node& root = nodes_[root_];
    return root_ != kNone && root.left == kNone && root.right == kNone ? &root.item : nullptr;
  }

  // The first item of the group whose phase has passed (`passed`), or of the other one, at `phase`, that is before
  // `limit` (null: none), needs no more than `room`, and for which accept(item) is true; kNone if there is none.
  template <class Accept>
  [[nodiscard]] Ref first(bool passed, std::int64_t phase, const Room& room, const OrderKey* limit,
                          Accept&& accept) const {
    Ref best = kNone;
    search(root_, passed, phase, room, limit, accept, best);
    return best;
  }
  template <class F>
  void each(F&& f) const {
    visit(root_, f);
  }

 private:
  struct Node {
    Item item{};
    Ref left = kNone;
    Ref right = kNone;
    Ref best = kNone;  // Of its subtree.
    Room least{};      // Of its subtree.
  };

  static std::uint64_t weight(Ref at) { return mix(std::uint64_t{at} * 0x9e3779b97f4a7c15U); }
  [[nodiscard]] bool sorted_before(Ref a, Ref b) const {
    return nodes_[a].item.phase != nodes_[b].item.phase ? nodes_[a].item.phase < nodes_[b].item.phase : a < b;
  }
  void update(Ref at) {
    Node& node = nodes_[at];
    node.best = at;
    node.least = node.item.needs;
    for (const Ref child : {node.left, node.right}) {
      if (child == kNone) continue;
      if (nodes_[nodes_[child].best].item.key < nodes_[node.best].item.key) node.best = nodes_[child].best;
      node.least.reduce_to(nodes_[child].least);
    }
  }
  void split(Ref at, Ref by, Ref& left, Ref& right) {
    if (at == kNone) {
      left = right = kNone;
      return;
    }
    Ref middle = kNone;
    if (sorted_before(at, by)) {
      split(nodes_[at].right, by, middle, right);
      nodes_[at].right = middle;
      left = at;
    } else {
      split(nodes_[at].left, by, left, middle);
      nodes_[at].left = middle;
      right = at;
    }
    update(at);
  }
  Ref merge(Ref a, Ref b) {
    if (a == kNone || b == kNone) return a == kNone ? b : a;
    if (weight(a) > weight(b)) {
      nodes_[a].right = merge(nodes_[a].right, b);
      update(a);
      return a;
    }
    nodes_[b].left = merge(a, nodes_[b].left);
    update(b);
    return b;
  }
  Ref erase_from(Ref at, Ref which) {
    if (at == which) return merge(nodes_[at].left, nodes_[at].right);
    if (sorted_before(which, at)) {
      nodes_[at].left = erase_from(nodes_[at].left, which);
    } else {
      nodes_[at].right = erase_from(nodes_[at].right, which);
    }
    update(at);
    return at;
  }
  void update_path(Ref at, Ref which) {
    if (at != which) update_path(sorted_before(which, at) ? nodes_[at].left : nodes_[at].right, which);
    update(at);
  }
  template <class Accept>
  void search(Ref at, bool passed, std::int64_t phase, const Room& room, const OrderKey* limit, Accept& accept,
              Ref& best) const {
    while (at != kNone) {
      const Node& node = nodes_[at];
      if (!node.least.within(room)) return;
      if (limit != nullptr && !(nodes_[node.best].item.key < *limit)) return;
      const bool in_group = (node.item.phase <= phase) == passed;
      if (!in_group) {  // Only one side has items of the group.
        at = passed ? node.left : node.right;
        continue;
      }
      const auto look = [&] {
        if (limit != nullptr && !(node.item.key < *limit)) return;
        if (!node.item.needs.within(room) || !accept(node.item)) return;
        best = at;
        limit = &node.item.key;
      };
      if (node.best == at) look();
      const bool left_first =
          node.right == kNone ||
          (node.left != kNone && nodes_[nodes_[node.left].best].item.key < nodes_[nodes_[node.right].best].item.key);
      search(left_first ? node.left : node.right, passed, phase, room, limit, accept, best);
      if (best != kNone) limit = &nodes_[best].item.key;
      search(left_first ? node.right : node.left, passed, phase, room, limit, accept, best);
      if (best != kNone) limit = &nodes_[best].item.key;
      if (node.best != at) look();
      return;
    }
  }
  template <class F>
  void visit(Ref at, F& f) const {
    if (at == kNone) return;
    visit(nodes_[at].left, f);
    f(nodes_[at].item);
    visit(nodes_[at].right, f);
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);  // The first is kNone.
  std::vector<Ref> free_;
  Ref root_ = kNone;
};

}  // namespace rota::fleet
