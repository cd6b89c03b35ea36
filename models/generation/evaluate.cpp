#include "models/generation/evaluate.h"

#include <algorithm>
#include <cmath>

#include "models/generation/vocabulary.h"
#include "schema/ops/nn/loss.h"

namespace genesis::text {
namespace {

// Returns true if the entry point `loss` is suitable: a mean in 16 bits is too coarse, and dropout would change the result.
bool has_exact_loss(const Model& model) {
  const Graph* loss = model.find_entry("loss");
  if (!loss || loss->outputs().empty() || loss->outputs()[0].name != "loss") return false;
  const auto is_random = [](const Node& node) { return node.op->info.random; };
  return has_input(*loss, "tokens") && has_input(*loss, "targets") && loss->inputs().size() == 2 &&
         loss->type(loss->outputs()[0].value).dtype == DType::f32 &&
         std::ranges::none_of(loss->nodes(), is_random);
}

// Returns -log softmax(logits)[target].
template <class T>
double nats_of(std::span<const T> logits, int64_t target) {
  double greatest = -INFINITY, sum = 0;
  for (const T x : logits) greatest = std::max(greatest, static_cast<double>(x));
  for (const T x : logits) sum += std::exp(static_cast<double>(x) - greatest);
  return greatest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(target)]);
}

class Windows {
 public:
  Windows(Session& session, std::span<const int64_t> tokens, const EvaluateOptions& options,
          const std::vector<bool>& counts)
      : session_(session),
        tokens_(tokens),
        counts_(counts),
        by_loss_(has_exact_loss(session.model())),
        length_(std::min(options.seq, static_cast<int64_t>(tokens.size()) - 1)),
        stride_(options.stride == 0 ? std::max<int64_t>(1, options.seq / 2) : options.stride) {}

  // Evaluates all windows. The last one begins earlier than the stride says, so that all have one length and share one plan.
  Evaluation run(const std::function<void(int64_t)>& on_window) {
    Evaluation total;
    const auto targets = static_cast<int64_t>(tokens_.size()) - 1;
    for (int64_t done = 0; done < targets; ++total.windows) {
      const int64_t next = targets - done > stride_ ? done + stride_ : targets;  // strides may be near 2^63
      const int64_t end = done == 0 ? length_ : next, first = end - length_;
      std::vector<int64_t> wanted = targets_of(first, done - first);
      const auto counted = length_ - std::ranges::count(wanted, kIgnoredTarget);
      if (counted > 0) total.nats += window(first, wanted, counted);
      total.tokens += counted;
      done = end;
      if (on_window) on_window(done);
    }
    return total;
  }

 private:
  // Returns the targets of the window that begins at `first`. The first `skipped` were counted in earlier windows and are
  // ignored.
  std::vector<int64_t> targets_of(int64_t first, int64_t skipped) const {
    const auto from = tokens_.begin() + first + 1;
    std::vector<int64_t> targets(from, from + length_);
    std::fill_n(targets.begin(), skipped, kIgnoredTarget);
    for (size_t i = 0; i < targets.size() && !counts_.empty(); ++i)
      if (!counts_[static_cast<size_t>(first) + 1 + i]) targets[i] = kIgnoredTarget;
    return targets;
  }

  double window(int64_t first, const std::vector<int64_t>& targets, int64_t counted) {
    const auto from = tokens_.begin() + first;
    const Tensor x = Tensor::of<int64_t>({1, length_}, std::vector<int64_t>(from, from + length_));
    if (!by_loss_) return nats_of_logits(session_.run("forward", {{"tokens", x}}).at("logits"), targets);
    const Tensor y = Tensor::of<int64_t>({1, length_}, targets);
    const auto mean = session_.run("loss", {{"tokens", x}, {"targets", y}}).at("loss").item<double>();
    return mean * static_cast<double>(counted);
  }

  double nats_of_logits(const Tensor& logits, const std::vector<int64_t>& targets) const {
    const auto classes = static_cast<size_t>(logits.type().shape[2].value());
    double sum = 0;
    dispatch(logits.type().dtype, [&](auto tag) {
      const auto all = logits.as<typename decltype(tag)::type>();
      for (size_t i = 0; i < targets.size(); ++i)
        if (targets[i] != kIgnoredTarget) sum += nats_of(all.subspan(i * classes, classes), targets[i]);
    });
    return sum;
  }

  Session& session_;
  std::span<const int64_t> tokens_;
  const std::vector<bool>& counts_;
  const bool by_loss_;
  const int64_t length_, stride_;
};

void check(const Session& session, std::span<const int64_t> tokens, const EvaluateOptions& options) {
  if (options.seq < 1) fail("a window of {} tokens: at least one is needed", options.seq);
  if (options.stride < 0 || options.stride > options.seq)
    fail("a stride of {} in windows of {} tokens: expected 1 to {}", options.stride, options.seq,
         options.seq);
  if (tokens.size() < 2) fail("the text has {} tokens, at least two are needed", tokens.size());
  const int64_t vocabulary = vocabulary_of(session.model().entry("forward"), 3);
  for (const int64_t token : tokens)
    if (token < 0 || token >= vocabulary)
      fail("the text has token {}, and the model knows those below {}: is this its tokenizer?", token,
           vocabulary);
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss()); }

void Evaluation::add(const Evaluation& other) {
  nats += other.nats;
  tokens += other.tokens;
  windows += other.windows;
}

Evaluation evaluate(Session& session, std::span<const int64_t> tokens, const EvaluateOptions& options,
                    const std::vector<bool>& counts, const std::function<void(int64_t done)>& on_window) {
  check(session, tokens, options);
  if (!counts.empty() && counts.size() != tokens.size())
    fail("`counts` has {} entries, expected one for each of the {} tokens", counts.size(), tokens.size());
  return Windows(session, tokens, options, counts).run(on_window);
}

}  // namespace genesis::text
