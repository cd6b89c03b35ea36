// attention and attention_grad on the CPU: how they are cut into leaves (attention_tasks.h), by shape alone.
// Forward: tasks of one head and a range of queries. Backward: tasks of one key head and a range of keys.
// Decode, when there are few queries: tasks of one key head and a run of keys, then the runs are merged.
#include <algorithm>

#include "backends/cpu/attention/attention_geometry.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/parallel/task_scratch.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

using Geometry = AttentionGeometry;

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kWantedTasks = 16;     // so that cores share the work evenly
constexpr double kInlineWork = 1 << 18;  // multiply-adds not worth a parallel loop
constexpr int64_t kDecodeQueries = 4;    // at most, for decode

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Halves `most` until there are enough tasks.
int64_t choose_length(int64_t most, int64_t least, int64_t total, int64_t others) {
  int64_t length = most;
  while (length > least && others * ceil_div(total, length) < kWantedTasks) length /= 2;
  return length;
}

// In reals: a product of the sizes of several tensors may be beyond 64 bits.
double multiply_adds(const Geometry& g, int64_t keys) {
  return static_cast<double>(g.batch * g.heads * g.queries) * static_cast<double>(keys) *
         static_cast<double>(g.size + g.v_size);
}

// Small loops stay on the calling thread.
template <class Body>
void for_each_task(int64_t count, double work, const Body& body) {
  if (work <= kInlineWork || count == 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  parallel_pieces(count, body);
}

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  return std::make_shared<Geometry>(attention_geometry(query));
}

std::optional<std::string> needs_f32_at_most(const KernelQuery& query) {
  if (query.inputs[0].dtype == DType::f64) return "it computes in f32, the operands are f64";
  return std::nullopt;
}

AttentionHead head_of(const Geometry& g, const KernelContext& c, int64_t b, int64_t h) {
  const int64_t key_head = h / g.group();
  const QkvHeads x = operand_heads(g, c);
  return {x.q.at(b, h), x.k.at(b, key_head),         x.v.at(b, key_head), g.size,
          g.v_size,     static_cast<float>(g.scale), sight_of(g, c, b, h)};
}

// --- forward
// ---------------------------------------------------------------------------------------------------------

struct ForwardCut {
  int64_t rows, parts, tasks;
};

ForwardCut cut_forward(const Geometry& g) {
  const int64_t rows = choose_length(kForwardRows, 64, g.queries, g.batch * g.heads);
  const int64_t parts = ceil_div(g.queries, rows);
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

float* lse_of(const KernelContext& c) { return c.outputs.size() > 1 ? c.output(1).as<float>() : nullptr; }

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

// --- decode
// ----------------------------------------------------------------------------------------------------------

struct DecodeCut {
  int64_t heads;         // query heads of a task
  int64_t chunks;        // tasks side by side that share a key head
  int64_t parts;         // runs of keys
  int64_t stride, rows;  // floats of a row's partial result, rows of a task
  int64_t columns(const Geometry& g) const { return g.batch * g.key_heads * chunks; }
  int64_t partial(int64_t column, int64_t part) const { return (column * parts + part) * rows * stride; }
  CheckedSize floats(const Geometry& g) const { return CheckedSize(columns(g)) * parts * rows * stride; }
};

DecodeCut cut_decode(const Geometry& g) {
  DecodeCut cut{};
  cut.heads = std::min(g.group(), kDecodeRows / std::max<int64_t>(1, g.queries));
  cut.chunks = ceil_div(g.group(), cut.heads);
  cut.parts = ceil_div(g.keys, kDecodeKeys);
  cut.stride = g.v_size + 2;
  cut.rows = cut.heads * g.queries;
  return cut;
}

std::optional<std::string> needs_few_queries(const KernelQuery& query) {
  if (auto why_not = needs_f32_at_most(query)) return why_not;
  const Geometry g = attention_geometry(query);
  if (g.queries > kDecodeQueries) return fmt::format("it takes at most {} queries", kDecodeQueries);
  if (g.heads == 0 || g.size % 16 != 0 || g.v_size % 16 != 0)
    return "it takes head sizes that are multiples of 16";
  return std::nullopt;
}

int64_t decode_tasks(const Geometry& g, const DecodeCut& cut) {
  return (CheckedSize(cut.columns(g)) * cut.parts).value();
}
int64_t decode_tasks_bytes(const Geometry& g, const DecodeCut& cut) {
  return TaskScratch::bytes_for(decode_tasks(g, cut),
                                (CheckedSize(decode_floats(g.size, g.v_size)) * kFloat).value());
}

int64_t decode_scratch(const KernelQuery& query) {
  const Geometry g = attention_geometry(query);
  const DecodeCut cut = cut_decode(g);
  return (cut.floats(g) * kFloat + decode_tasks_bytes(g, cut)).value();
}

// The parts of row `b` of the batch that any of its queries sees: [first, end).
struct Parts {
  int64_t first, end;
};
Parts parts_of(const Geometry& g, const KernelContext& c, int64_t b) {
  const Sight sight = sight_of(g, c, b, 0);
  return {sight.begin(0) / kDecodeKeys, ceil_div(sight.keys, kDecodeKeys)};
}

DecodeTask decode_task(const Geometry& g, const KernelContext& c, const DecodeCut& cut, int64_t column,
                       int64_t part, float* partials) {
  const int64_t chunk = column % cut.chunks, key_head = column / cut.chunks % g.key_heads,
                b = column / cut.chunks / g.key_heads;
  const int64_t first_head = chunk * cut.heads, first = part * kDecodeKeys;
  const AttentionHead head = head_of(g, c, b, key_head * g.group() + first_head);
  return {head,
          g.queries,
          std::min(cut.heads, g.group() - first_head),
          operand_heads(g, c).q.head_step,
          mask_head_step(g, c),
          first,
          std::min(kDecodeKeys, head.sight.keys - first),
          partials + cut.partial(column, part)};
}

void merge_row(const Geometry& g, const KernelContext& c, const DecodeCut& cut, int64_t row,
               float* partials) {
  const int64_t query = row % g.queries, h = row / g.queries % g.heads, b = row / g.queries / g.heads;
  const int64_t in_group = h % g.group(),
                column = (b * g.key_heads + h / g.group()) * cut.chunks + in_group / cut.heads;
  const int64_t at = in_group % cut.heads * g.queries + query;
  const auto [first, end] = parts_of(g, c, b);
  const float lse =
      merge_partials(partials + cut.partial(column, first) + at * cut.stride, end - first,
                     cut.rows * cut.stride, g.v_size, result_heads(g, c.output()).at(b, h).from(query));
  if (float* to = lse_of(c)) to[row] = lse;
}

void run_decode(const KernelContext& c) {
  const auto& g = c.prepared<Geometry>();
  const DecodeCut cut = cut_decode(g);
  check_key_range(g, c);
  const int64_t keys = most_keys(g, c), parts = ceil_div(keys, kDecodeKeys);
  TaskScratch task_scratch(c.scratch, decode_tasks(g, cut), decode_floats(g.size, g.v_size) * kFloat);
  auto* partials = reinterpret_cast<float*>(c.scratch + decode_tasks_bytes(g, cut));
  const int64_t rows = g.batch * g.heads * g.queries;
  for_each_task(cut.columns(g) * parts, 4 * multiply_adds(g, keys), [&](int64_t index) {
    const int64_t column = index / parts, part = index % parts;
    const Parts seen = parts_of(g, c, column / cut.chunks / g.key_heads);
    if (part < seen.first || part >= seen.end) return;
    const DecodeTask task = decode_task(g, c, cut, column, part, partials);
    task_scratch.with([&](std::byte* scratch) { run_leaf(task, reinterpret_cast<float*>(scratch)); });
  });
  for_each_task(rows, static_cast<double>(rows) * static_cast<double>(parts * g.v_size),
                [&](int64_t row) { merge_row(g, c, cut, row, partials); });
}

// --- backward
// --------------------------------------------------------------------------------------------------------

// Where keys are split among tasks, each leaves its share of dq in scratch: [part][batch][head][query][padded
// size].
struct BackwardCut {
  int64_t keys, parts, tasks;
  int64_t dq_ld, dq_head, dq_part;  // floats
};

BackwardCut cut_backward(const Geometry& g) {
  const int64_t columns = g.batch * g.key_heads;
  const int64_t keys = choose_length(kBackwardKeys, kBackwardBlock, g.keys, columns);
  const int64_t parts = std::max<int64_t>(1, ceil_div(g.keys, keys)), ld = padded(g.size);
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

constexpr KernelImpl kDecode{.name = "decode",
                             .run = run_decode,
                             .can_run = needs_few_queries,
                             .scratch_bytes = decode_scratch,
                             .prepare = prepare};
constexpr KernelImpl kBlocks{.name = "blocks",
                             .run = run_forward,
                             .can_run = needs_f32_at_most,
                             .scratch_bytes = forward_scratch,
                             .prepare = prepare};
constexpr KernelImpl kBackwardBlocks{.name = "blocks",
                                     .run = run_backward,
                                     .can_run = needs_f32_at_most,
                                     .scratch_bytes = backward_scratch,
                                     .prepare = prepare};

}  // namespace

std::span<const OpKernel> attention_kernels() {
  static const OpKernel kernels[] = {{"attention", kDecode},
                                     {"attention", kBlocks},
                                     {"attention", kReferenceAttention},
                                     {"attention_grad", kBackwardBlocks},
                                     {"attention_grad", kReferenceAttentionGrad}};
  return kernels;
}

}  // namespace genesis::cpu
