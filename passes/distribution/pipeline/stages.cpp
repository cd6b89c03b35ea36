#include "passes/distribution/pipeline/stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "passes/core/analysis.h"
#include "passes/core/bind.h"
#include "passes/core/rewriter.h"
#include "passes/distribution/pipeline/stage_assignment.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/collective/collective.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

constexpr int64_t kNominalSize = 512;

const Graph& training_entry(const Model& model) {
  for (const auto& entry : model.entries())
    for (const StateUpdate& update : entry->updates())
      if (const State& state = model.state(update.state);
          state.role == StateRole::kParameter && state.trainable)
        return *entry;
  fail(
      "the mesh axis 'pipeline' is for training, and no entry point of this model trains: add one with "
      "genesis-opt --train");
}

// Returns whether the author has written the exchanges between the stages.
bool names_the_axis(const Model& model) {
  for (const auto& entry : model.entries())
    for (const Node& node : entry->nodes())
      if (axis_of(*node.op, node.attributes) == kPipelineAxis) return true;
  return false;
}

bool is_weight(const Model& model, int32_t state) {
  return state >= 0 && model.state(state).role == StateRole::kParameter &&
         !(model.state(state).type.shape.numel() == Dim(1));
}

// A segment that is never split: the nodes between two places that only one tensor crosses.
struct Piece {
  std::vector<int32_t> weights;
  double time = 0;  // forward and backward time of a micro-batch
};

// Finds the segments of a training step, in forward order.
class PieceFinder {
 public:
  PieceFinder(const Graph& graph, const Target& target)
      : graph_(graph), target_(target), phases_(phases_of(graph)), depends_(graph.values().size(), false) {}

  std::vector<Piece> run() {
    find_sequence();
    count_crossing();
    make_pieces();
    add_times();
    return std::move(pieces_);
  }

 private:
  // Finds the forward nodes of the first micro-batch that depend on weights.
  void find_sequence() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      const auto [phase, micro_batch] = phases_.nodes[i];
      if (phase != StepPhase::kForward || micro_batch != 0) continue;
      const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
        return depends_[static_cast<size_t>(v.index)] || is_weight(graph_.model(), state_of(graph_, v));
      });
      if (!depends) continue;
      for (const ValueId output : node.outputs) depends_[static_cast<size_t>(output.index)] = true;
      sequence_.push_back(&node);
    }
  }

  // Counts, for each position in the sequence, the tensors that are computed up to it and read after it.
  void count_crossing() {
    std::map<ValueId, std::pair<size_t, size_t>>
        lives;  // position of the producer, position of the last reader
    for (size_t i = 0; i < sequence_.size(); ++i) {
      for (const ValueId input : sequence_[i]->inputs)
        if (const auto life = lives.find(input); life != lives.end()) life->second.second = i;
      for (const ValueId output : sequence_[i]->outputs) lives[output] = {i, i};
    }
    crossing_.assign(sequence_.size(), 0);
    for (const auto& [value, life] : lives)
      for (size_t i = life.first; i < life.second; ++i) ++crossing_[i];
  }

  // Appends nodes without weights to the previous segment: a stage must have weights.
  void make_pieces() {
    std::set<int32_t> known;
    for (size_t i = 0; i < sequence_.size(); ++i) {
      for (const ValueId input : sequence_[i]->inputs)
        if (const int32_t state = state_of(graph_, input);
            is_weight(graph_.model(), state) && known.insert(state).second)
          pending_weights_.push_back(state);
      pending_.push_back(sequence_[i]);
      if (crossing_[i] == 1 || i + 1 == sequence_.size()) close_piece();
    }
  }

  void close_piece() {
    if (!pending_weights_.empty() || pieces_.empty()) pieces_.emplace_back();
    Piece& piece = pieces_.back();
    piece.weights.insert(piece.weights.end(), pending_weights_.begin(), pending_weights_.end());
    for (const Node* node : pending_)
      for (const std::string& origin : origins_of(*node)) piece_of_origin_[origin] = pieces_.size() - 1;
    pending_.clear();
    pending_weights_.clear();
  }

  // Counts backward nodes in the segment of their forward nodes.
  void add_times() {
    Bindings nominal;
    for (const std::string& symbol : symbols_of(graph_)) nominal[symbol] = kNominalSize;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto [phase, micro_batch] = phases_.nodes[i];
      if (phase == StepPhase::kUpdate || micro_batch != 0) continue;
      const auto piece = piece_of_origin_.find(origins_of(graph_.nodes()[i])[0]);
      if (piece != piece_of_origin_.end())
        pieces_[piece->second].time +=
            time_in_flops(cost_of(graph_, graph_.nodes()[i], nominal), target_.flops_per_byte_of_stages);
    }
  }

  const Graph& graph_;
  const Target& target_;
  const StepPhases phases_;
  std::vector<bool> depends_;  // by value id: whether it depends on weights
  std::vector<const Node*> sequence_;
  std::vector<int> crossing_;
  std::vector<Piece> pieces_;
  std::vector<const Node*> pending_;  // nodes of the segment that is not closed yet
  std::vector<int32_t> pending_weights_;
  std::map<std::string, size_t> piece_of_origin_;
};

// Returns the first segment of each stage. Minimizes the time of the longest stage; among equal solutions the earlier stage
// takes fewer segments.
std::vector<size_t> first_pieces(const std::vector<Piece>& pieces, size_t stages) {
  const size_t count = pieces.size();
  std::vector<double> before(count + 1, 0);  // time of the segments before index i
  for (size_t i = 0; i < count; ++i) before[i + 1] = before[i] + pieces[i].time;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // longest[s][i] is the least possible time of the longest stage if the segments from i on go to the stages from s on.
  std::vector<std::vector<double>> longest(stages + 1, std::vector<double>(count + 1, kNever));
  std::vector<std::vector<size_t>> end(stages, std::vector<size_t>(count + 1, count));
  longest[stages][count] = 0;
  for (size_t s = stages; s-- > 0;)
    for (size_t i = 0; i < count; ++i)
      for (size_t j = i + 1; j <= count; ++j) {
        const double time = std::max(before[j] - before[i], longest[s + 1][j]);
        if (time < longest[s][i]) longest[s][i] = time, end[s][i] = j;
      }
  std::vector<size_t> first;
  for (size_t s = 0, i = 0; s < stages; i = end[s++][i]) first.push_back(i);
  return first;
}

// Returns a state's name without its last component: "model.layers.3.mlp.up_proj".
std::string layer_of(const std::string& state) {
  const size_t dot = state.rfind('.');
  return dot == std::string::npos ? state : state.substr(0, dot);
}

}  // namespace

std::vector<int64_t> plan_stages(const Model& model, int64_t stages, const Target& target) {
  const Graph& graph = training_entry(model);
  const std::vector<Piece> pieces = PieceFinder(graph, target).run();
  if (std::ssize(pieces) < stages)
    fail(
        "{} ranks along 'pipeline' cannot share entry point '{}': between {} pieces of it one tensor alone "
        "passes, so take {} or fewer",
        stages, graph.name(), pieces.size(), std::max<size_t>(1, pieces.size()));
  const std::vector<size_t> first = first_pieces(pieces, static_cast<size_t>(stages));
  std::vector<int64_t> states(model.states().size(), kEveryStage);
  for (size_t i = 0; i < pieces.size(); ++i)
    for (const int32_t weight : pieces[i].weights)
      states[static_cast<size_t>(weight)] =
          std::upper_bound(first.begin(), first.end(), i) - first.begin() - 1;
  return assign_stages(graph, phases_of(graph), std::move(states), true).states;
}

StateStorage find_stage_states(const Model& model, const Mesh& mesh, int64_t rank, int zero,
                               const Target& target) {
  const int64_t stages = mesh.size(kPipelineAxis), place = mesh.place(rank, kPipelineAxis);
  if (stages == 1 || names_the_axis(model)) return {};
  if (mesh.size(kTensorAxis) > 1)
    fail(
        "mesh {}: ranks along 'pipeline' and 'tensor' do not go together yet: give one of them, beside "
        "'data'",
        mesh.to_string());
  if (zero > 0)
    fail("ZeRO (--zero {}) does not go together with ranks along 'pipeline' yet: give --zero 0", zero);
  const std::vector<int64_t> owners = plan_stages(model, stages, target);
  StateStorage storage;
  for (size_t i = 0; i < owners.size(); ++i) {
    const State& state = model.states()[i];
    const StateFormat* format = plain_format(state.type.dtype);
    if (owners[i] == kEveryStage || state.encoded || !format) continue;
    const bool is_here = owners[i] == place;
    Shard shard{kPipelineAxis, 0, is_here ? state.type.numel() : 0, 1, is_here ? state.type.shape : Shape{0}};
    shard.owner = owners[i];
    storage.groups.push_back({format, {static_cast<int32_t>(i)}, {}, shard});
  }
  number_parts(storage, model.states().size());
  return storage;
}

namespace {

void add_states(PipelineSummary& summary, const Model& model, const std::vector<int64_t>& owners) {
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] == kEveryStage) continue;
    StageSummary& stage = summary.stages[static_cast<size_t>(owners[i])];
    const State& state = model.states()[i];
    stage.state_bytes += state.type.bytes();
    if (state.role != StateRole::kParameter) continue;
    stage.last = layer_of(state.name);
    if (stage.first.empty()) stage.first = stage.last;
  }
}

void add_nodes(PipelineSummary& summary, const Graph& graph, const std::vector<int64_t>& owners,
               const Target& target) {
  const StepPhases phases = phases_of(graph);
  const StageAssignment assignment = assign_stages(graph, phases, owners);
  summary.micro_batches = phases.micro_batches;
  StageDurations durations{std::vector<double>(summary.stages.size()), {}};
  durations.backward = durations.forward;
  bool has_backward = false;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (assignment.nodes[i] < 0 || phases.nodes[i].phase == StepPhase::kUpdate) continue;
    const bool is_backward = phases.nodes[i].phase == StepPhase::kBackward;
    const auto stage = static_cast<size_t>(assignment.nodes[i]);
    has_backward |= is_backward;
    const Cost cost = cost_of(graph, graph.nodes()[i], {});
    summary.stages[stage].flops += cost.flops;
    (is_backward ? durations.backward : durations.forward)[stage] +=
        time_in_flops(cost, target.flops_per_byte_of_stages) / static_cast<double>(phases.micro_batches);
  }
  if (!has_backward) durations.backward.clear();
  summary.bubble = one_forward_one_backward(durations, phases.micro_batches).bubble;
}

}  // namespace

PipelineSummary summarize_pipeline(const Model& model, const std::string& entry, const Bindings& sizes,
                                   int64_t stages, const Target& target) {
  const std::vector<int64_t> owners = plan_stages(model, stages, target);
  PipelineSummary summary;
  summary.stages.resize(static_cast<size_t>(stages));
  add_states(summary, model, owners);
  const auto work = Model::with_tables_of(model);
  add_nodes(summary, passes::bind(copy_graph(model.entry(entry), *work), sizes), owners, target);
  return summary;
}

}  // namespace genesis::passes
