#include "models/jobs/calibrate.h"

#include <algorithm>

#include "executor/session.h"
#include "models/generation/vocabulary.h"
#include "passes/precision/observe_inputs.h"
#include "schema/encoding/calibrated_rounding.h"
#include "schema/encoding/quantized_formats.h"
#include "schema/graph/state_storage.h"

namespace genesis::jobs {
namespace {

constexpr const char* kEntry = "forward";
constexpr int64_t kFewestTokens = 32;

// Returns windows of equal length, which share one plan, from the texts joined.
std::vector<Tensor> windows_of(const Model& model, const text::EvaluationTexts& texts,
                               const CalibrationOptions& options) {
  std::vector<int64_t> tokens;
  for (const std::vector<int64_t>& text : texts.tokens) tokens.insert(tokens.end(), text.begin(), text.end());
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(options.tokens)));
  const auto count = static_cast<int64_t>(tokens.size());
  if (count < kFewestTokens)
    fail("the text for calibration has {} tokens, at least {} are needed, and some thousands are better",
         count, kFewestTokens);
  const int64_t longest = text::positions_of(model).value_or(options.seq);
  const int64_t length = std::min({options.seq, longest, count});
  std::vector<Tensor> windows;
  for (int64_t first = 0; first + length <= count; first += length) {
    const auto from = tokens.begin() + first;
    windows.push_back(Tensor::of<int64_t>({1, length}, std::vector<int64_t>(from, from + length)));
  }
  return windows;
}

// Adds the matrices [..., width, width] of `more` to `sum` [width, width].
void add(const Tensor& more, std::vector<float>& sum) {
  const auto from = more.as<float>();
  for (size_t first = 0; first < from.size(); first += sum.size())
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += from[first + i];
}

class Calibration {
 public:
  Calibration(const Model& model, std::map<int32_t, WeightFormat> formats, std::vector<Tensor> windows,
              const CalibrationOptions& options)
      : work_(model), windows_(std::move(windows)), options_(options) {
    std::set<int32_t> states;
    for (const auto& [state, format] : formats)
      if (format == WeightFormat::kQ4m) states.insert(state);
    inputs_ = passes::observed_inputs(model.entry(kEntry), states);
    for (const auto& entry : model.entries())
      if (entry->name() != kEntry) work_.remove_entry(entry->name());
  }

  std::map<int32_t, EncodedValues> run() {
    for (size_t first = 0; first < inputs_.size();) {
      const size_t last = end_of_round(first);
      const std::span<const passes::ObservedInput> round(inputs_.data() + first, last - first);
      std::vector<std::vector<float>> grams = measure(round);
      for (size_t i = 0; i < round.size(); ++i) {
        round_weights(round[i], std::move(grams[i]));
        if (options_.on_progress) options_.on_progress("calibrating", first + i + 1, inputs_.size());
      }
      first = last;
    }
    return std::move(encoded_);
  }

 private:
  // Returns the end of the round that begins with input `first`: at least that one, and as many as the limit of bytes allows.
  size_t end_of_round(size_t first) const {
    int64_t bytes = 0;
    size_t last = first;
    while (last < inputs_.size() &&
           (last == first || bytes + inputs_[last].gram_bytes() <= options_.round_bytes))
      bytes += inputs_[last++].gram_bytes();
    return last;
  }

  std::vector<std::vector<float>> measure(std::span<const passes::ObservedInput> round) const {
    const auto observed = std::make_shared<Model>(work_);
    observed->replace_entry(passes::observe(std::as_const(*observed).entry(kEntry), round));
    std::vector<std::vector<float>> grams;
    for (const passes::ObservedInput& input : round)
      grams.emplace_back(static_cast<size_t>(input.width * input.width));
    Session session(std::shared_ptr<const Model>{observed});
    for (const Tensor& window : windows_) {
      const NamedTensors outputs = session.run(kEntry, {{"tokens", window}});
      for (size_t i = 0; i < grams.size(); ++i) add(outputs.at("gram_" + std::to_string(i)), grams[i]);
    }
    return grams;
  }

  void round_weights(const passes::ObservedInput& input, std::vector<float> gram) {
    const InputFactor factor(gram, input.width);
    gram = {};
    for (const int32_t index : input.weights) {
      const State& state = work_.state(index);
      const StateFormat& format = quantized_format(WeightFormat::kQ4m, state.type.dtype);
      EncodedValues values =
          with_context([&] { return round_calibrated(format, initial_value(state), factor); },
                       [&] { return "in state '" + state.name + "'"; });
      encoded_[index] = values;
      work_.set_trainable(index, false);
      work_.set_encoded(index, std::move(values));
    }
  }

  Model work_;  // the model with the weights that are rounded already
  const std::vector<Tensor> windows_;
  const CalibrationOptions& options_;
  std::vector<passes::ObservedInput> inputs_;
  std::map<int32_t, EncodedValues> encoded_;
};

}  // namespace

passes::QuantizeReport quantize_calibrated(Model& model, const passes::QuantizeOptions& options,
                                           const text::EvaluationTexts& texts,
                                           const CalibrationOptions& calibration) {
  const std::map<int32_t, WeightFormat> formats = passes::formats_to_quantize(model, options);
  return passes::quantize(
      model, options, Calibration(model, formats, windows_of(model, texts, calibration), calibration).run());
}

}  // namespace genesis::jobs
