// attention, attention_grad and quantized_attention on the CPU: splits them into leaf tasks (attention_tasks.h), by shape alone. A forward task takes
// one head and a range of queries, a backward task one key head and a range of keys. Few queries have their own implementation
// (backends/cpu/attention/decode).
#include <algorithm>

#include "backends/cpu/attention/attention_cut.h"
#include "backends/cpu/parallel/task_scratch.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

using Geometry = AttentionGeometry;

constexpr int64_t kWantedTasks = 16;  // enough for the cores to share the work evenly

// Returns `most`, halved until there are enough tasks, but at least `least`.
int64_t choose_length(int64_t most, int64_t least, int64_t total, int64_t others) {
  int64_t length = most;
  while (length > least && others * parts_over(total, length) < kWantedTasks) length /= 2;
  return length;
}

// --- forward

struct ForwardCut {
  int64_t rows, parts, tasks;
};

ForwardCut cut_forward(const Geometry& g) {
  const int64_t rows = choose_length(kForwardRows, 64, g.queries, g.batch * g.heads);
  const int64_t parts = parts_over(g.queries, rows);
  return {rows, parts, g.batch * g.heads * parts};
}

int64_t forward_task_bytes(const Geometry& g, const ForwardCut& cut) {
  return (CheckedSize(forward_floats(g.size, g.v_size, std::min(cut.rows, g.queries), g.keys)) * kFloat)
      .value();
}

int64_t forward_scratch(const KernelQuery& query) {
  const Geometry g = attention_geometry(query);
  const ForwardCut cut = cut_forward(g);
  return TaskScratch::bytes_for(cut.tasks, forward_task_bytes(g, cut));
}

void run_forward(const KernelContext& c) {
  const auto& g = c.prepared<Geometry>();
  const ForwardCut cut = cut_forward(g);
  check_key_range(g, c);
  TaskScratch task_scratch(c.scratch, cut.tasks, forward_task_bytes(g, cut));
  float* lse = lse_of(c);
  for_each_task(cut.tasks, multiply_adds(g, g.keys), [&](int64_t index) {
    // The last queries see the most keys, so they go first.
    const int64_t part = cut.parts - 1 - index % cut.parts, b = index / cut.parts / g.heads,
                  h = index / cut.parts % g.heads;
    const int64_t first = part * cut.rows;
    const ForwardTask task{head_of(g, c, b, h), result_heads(g, c.output()).at(b, h).from(first),
                           lse ? lse + g.lse_row(b, h) + first : nullptr, first,
                           std::min(cut.rows, g.queries - first)};
    task_scratch.with([&](std::byte* scratch) { run_leaf(task, reinterpret_cast<float*>(scratch)); });
  });
}

// --- backward

// If keys are split among tasks, each task leaves its share of dq in scratch memory: [part][batch][head][query][padded size].
struct BackwardCut {
  int64_t keys, parts, tasks;
  int64_t dq_ld, dq_head, dq_part;  // floats
};

BackwardCut cut_backward(const Geometry& g) {
  const int64_t columns = g.batch * g.key_heads;
  const int64_t keys = choose_length(kBackwardKeys, kBackwardBlock, g.keys, columns);
  const int64_t parts = std::max<int64_t>(1, parts_over(g.keys, keys)), ld = padded(g.size);
  const CheckedSize dq_head = CheckedSize(g.queries) * ld;
  return {keys, parts,           (CheckedSize(columns) * parts).value(),
          ld,   dq_head.value(), (dq_head * g.batch * g.heads).value()};
}

int64_t backward_task_bytes(const Geometry& g, const BackwardCut& cut) {
  return (CheckedSize(backward_floats(g.size, g.v_size, g.queries, std::min(cut.keys, g.keys))) * kFloat)
      .value();
}

int64_t backward_tasks_bytes(const Geometry& g, const BackwardCut& cut) {
  return TaskScratch::bytes_for(cut.tasks, backward_task_bytes(g, cut));
}

int64_t backward_scratch(const KernelQuery& query) {
  const Geometry g = attention_geometry(query);
  const BackwardCut cut = cut_backward(g);
  const CheckedSize dq = cut.parts > 1 ? CheckedSize(cut.parts) * cut.dq_part * kFloat : 0;
  return (dq + backward_tasks_bytes(g, cut)).value();
}

BackwardTask backward_task(const Geometry& g, const KernelContext& c, const BackwardCut& cut, int64_t index,
                           float* dq_parts) {
  const int64_t part = index % cut.parts, key_head = index / cut.parts % g.key_heads,
                b = index / cut.parts / g.key_heads, h = key_head * g.group();
  BackwardTask task;
  task.head = head_of(g, c, b, h);
  const Heads y = result_heads(g, c.input(g.y()));
  const QkvHeads to = gradient_heads(g, c);
  task.y = y.at(b, h);
  task.dy = result_heads(g, c.input(g.dy())).at(b, h);
  task.dk = to.k.at(b, key_head);
  task.dv = to.v.at(b, key_head);
  task.lse = c.input(g.lse()).as<float>() + g.lse_row(b, h);
  task.queries = g.queries;
  task.group = g.group();
  task.q_head_step = operand_heads(g, c).q.head_step;
  task.y_head_step = y.head_step;
  task.mask_head_step = mask_head_step(g, c);
  task.first = part * cut.keys;
  task.count = std::min(cut.keys, g.keys - task.first);
  if (cut.parts == 1) {
    task.dq = to.q.at(b, h);
    task.dq_head_step = to.q.head_step;
  } else {
    float* dq = dq_parts + part * cut.dq_part + (b * g.heads + h) * cut.dq_head;
    task.dq = {reinterpret_cast<std::byte*>(dq), DType::f32, cut.dq_ld};
    task.dq_head_step = cut.dq_head;
  }
  return task;
}

void run_backward(const KernelContext& c) {
  const auto& g = c.prepared<Geometry>();
  const BackwardCut cut = cut_backward(g);
  check_key_range(g, c);
  TaskScratch task_scratch(c.scratch, cut.tasks, backward_task_bytes(g, cut));
  auto* dq_parts = reinterpret_cast<float*>(c.scratch + backward_tasks_bytes(g, cut));
  for_each_task(cut.tasks, multiply_adds(g, g.keys), [&](int64_t index) {
    const BackwardTask task = backward_task(g, c, cut, index, dq_parts);
    task_scratch.with([&](std::byte* scratch) { run_leaf(task, reinterpret_cast<float*>(scratch)); });
  });
  if (cut.parts == 1) return;
  for_each_task(g.batch * g.heads, static_cast<double>(cut.parts * cut.dq_part), [&](int64_t index) {
    const HeadRows dq = gradient_heads(g, c).q.at(index / g.heads, index % g.heads);
    for (int64_t query = 0; query < g.queries; ++query)
      sum_partials(dq_parts + index * cut.dq_head + query * cut.dq_ld, cut.parts, cut.dq_part, g.size,
                   dq.from(query));
  });
}

constexpr KernelImpl kBlocks{.name = "blocks",
                             .run = run_forward,
                             .can_run = needs_f32_at_most,
                             .scratch_bytes = forward_scratch,
                             .prepare = prepare_attention};
constexpr KernelImpl kBackwardBlocks{.name = "blocks",
                                     .run = run_backward,
                                     .can_run = needs_f32_at_most,
                                     .scratch_bytes = backward_scratch,
                                     .prepare = prepare_attention};

}  // namespace

std::span<const OpKernel> attention_kernels() {
  static const OpKernel kernels[] = {{"attention", decode_attention_implementation()},
                                     {"attention", kBlocks},
                                     {"attention", kReferenceAttention},
                                     {"attention_grad", kBackwardBlocks},
                                     {"attention_grad", kReferenceAttentionGrad},
                                     {"quantized_attention", decode_attention_implementation()},
                                     {"quantized_attention", kBlocks}};
  return kernels;
}

}  // namespace genesis::cpu
