// The working copy that rematerialization searches in: an order of a graph's nodes in which some are repeated right before a
// later reader, and the bytes alive at each position. Counts like make_plan: views take no memory, results may overwrite inputs
// that die, updates are written into their state.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "schema/graph/graph.h"
#include "schema/graph/target.h"

namespace genesis::passes {

class RematSchedule {
 public:
  // Numbers of values and of buffers; the first values are those of the graph.
  using Id = int32_t;

  struct Item {
    NodeId node;
    int32_t first = 0;  // index of its first value: inputs, then outputs
    int32_t inputs = 0, outputs = 0;
    bool again = false;  // a repeated node
  };

  // Items with their values in one list, because a schedule is copied for every move that is tried.
  class Items {
   public:
    const std::vector<Item>& list() const { return list_; }
    size_t size() const { return list_.size(); }
    const Item& operator[](size_t i) const { return list_[i]; }
    std::span<const Id> inputs(const Item& item) const { return {&values_[at(item)], count(item.inputs)}; }
    std::span<const Id> outputs(const Item& item) const {
      return {&values_[at(item)] + item.inputs, count(item.outputs)};
    }
    std::span<Id> inputs(const Item& item) { return {&values_[at(item)], count(item.inputs)}; }

    void add(NodeId node, const std::vector<Id>& inputs, const std::vector<Id>& outputs, bool again = false);
    void insert(int place, const Items& items);
    void erase(int place) { list_.erase(list_.begin() + place); }

   private:
    static size_t count(int32_t n) { return static_cast<size_t>(n); }
    static size_t at(const Item& item) { return static_cast<size_t>(item.first); }

    std::vector<Item> list_;
    std::vector<Id> values_ = {0};  // never empty, so that an item without values has a valid index
  };

  // Bytes alive at each item, including scratch memory, and the lifetime of each buffer.
  struct Liveness {
    std::vector<int64_t> live;     // by item, and after the last one
    std::vector<int> first, last;  // by buffer: the items that first write it and last read it; -1: none
    std::vector<int> made_at;      // by value: the item that makes it; -1: none
    int64_t peak = 0;
    int at = 0;  // the first item with `peak` bytes
    int items_at_peak = 0;
  };

  // Drops a buffer after its last reader before item `from`, and recomputes it there.
  struct Move {
    Id buffer = -1;
    int from = 0;                            // the item before which the new items are inserted
    Items items;                             // in order
    std::vector<ValueId> originals;          // graph values of the values that the new items make
    std::vector<std::pair<Id, Id>> renamed;  // pairs (old, new): readers from `from` on read the new value
    double work = 0;                         // work to recompute it
    int64_t saved = 0;                       // bytes saved at the peak
    double worth() const { return static_cast<double>(saved) / work; }
  };

  RematSchedule(const Graph& graph, const std::vector<NodeId>& order, const Target& target);

  const Items& items() const { return items_; }
  ValueId original(Id value) const { return values_[static_cast<size_t>(value)].original; }

  Liveness liveness() const;
  // Returns the moves that may lower the peak, by bytes saved per work, best first.
  std::vector<Move> moves(const Liveness& liveness) const;
  void apply(const Move& move);
  // Makes the readers of a repeated item read the last earlier results of its node, and removes the item.
  void drop(int item);
  // Returns the work of an item: operations of products, plus bytes of memory times Target::flops_per_byte_again.
  double work_of(int item) const {
    return nodes_->work[static_cast<size_t>(items_[static_cast<size_t>(item)].node.index)];
  }

 private:
  struct ScheduledValue {
    ValueId original;
    Id buffer = -1;
    Id next = -1;  // the next copy of the same graph value, the first of which is the original; -1: none
  };
  struct Buffer {
    int64_t bytes = 0;
    bool table = false;   // an input, state or constant: always there, in its own memory
    bool pinned = false;  // an output or an update: alive to the end
  };
  class MoveMaker;

  void add_table_values();
  void add_item(NodeId node);
  int64_t bytes_of(const Node& node, size_t output) const;
  Id new_value(ValueId original, Id buffer);
  Id new_buffer(int64_t bytes, bool table = false);
  bool is_view(NodeId node) const { return nodes_->is_view[static_cast<size_t>(node.index)]; }
  Id buffer_of(Id value) const { return values_[static_cast<size_t>(value)].buffer; }
  const Buffer& buffer(Id id) const { return buffers_[static_cast<size_t>(id)]; }
  // `taken_at` holds, by buffer, the last item that passed it on or took it over.
  int64_t reused_bytes(int item, const Liveness& liveness, std::vector<int>& taken_at) const;
  void renew_views(size_t from);

  // Holds facts by node that stay the same when the schedule changes.
  struct Nodes {
    const Graph& graph;
    int64_t alignment;
    std::vector<bool> is_view;
    std::vector<double> work;
    std::vector<int64_t> scratch;
    std::vector<std::vector<InPlace>> in_place;
    std::multimap<ValueId, int32_t> updates;  // states that a value updates
  };
  static std::shared_ptr<const Nodes> facts_of(const Graph& graph, const Target& target);
  const Graph& graph() const { return nodes_->graph; }

  std::shared_ptr<const Nodes> nodes_;
  Items items_;
  std::vector<ScheduledValue> values_;
  std::vector<Buffer> buffers_;
};

}  // namespace genesis::passes
