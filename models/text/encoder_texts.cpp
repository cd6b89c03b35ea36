#include "models/text/encoder_texts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "models/chat/json_config.h"
#include "models/text/known_tokens.h"
#include "models/text/load_tokenizer.h"
#include "models/text/token_rows.h"
#include "models/zoo.h"
#include "schema/file/attached_files.h"

namespace genesis::text {
namespace {

// Returns a positive integer in an attached configuration file; 0 if there is none.
int64_t size_in(const chat::ConfigFiles& files, const std::string& file, const char* name) {
  const auto object = files.object(file);
  const nlohmann::json value = object ? object->value(name, nlohmann::json()) : nlohmann::json();
  // transformers writes 1e30 for a tokenizer without a limit.
  return value.is_number_integer() && value > 0 && value < (int64_t{1} << 40) ? value.get<int64_t>() : 0;
}

int64_t longest_of(const Model& model, const std::string& file) {
  const auto files = chat::ConfigFiles::of_model(model, file);
  int64_t longest = size_in(files, "sentence_bert_config.json", "max_seq_length");
  if (longest == 0) longest = size_in(files, "tokenizer_config.json", "model_max_length");
  const int64_t positions = models::longest_text(model);
  return longest == 0 || positions == 0 ? std::max(longest, positions) : std::min(longest, positions);
}

// Returns the number of tokens to which texts of up to `tokens` tokens are padded.
int64_t padded(int64_t tokens, int64_t longest) {
  const int64_t step = tokens <= 128 ? 16 : 64,
                whole = std::max<int64_t>(1, (tokens + step - 1) / step) * step;
  return longest > 0 ? std::max(tokens, std::min(whole, longest)) : whole;
}

bool takes_input(const Graph& entry, const std::string& name) {
  return std::ranges::any_of(entry.inputs(), [&](ValueId input) { return entry.value(input).name == name; });
}

// Returns the inputs for the texts with these numbers.
NamedTensors inputs_for(const Graph& entry, const std::vector<EncodedTexts>& texts,
                        std::span<const size_t> numbers, const BatchOptions& options) {
  const int64_t rows = std::ssize(numbers);
  int64_t most = 1;
  for (const size_t number : numbers) most = std::max(most, std::ssize(texts[number].ids));
  const int64_t seq = padded(most, options.longest);
  std::vector<int64_t> tokens(static_cast<size_t>(rows * seq)), types(tokens.size()), lengths;
  for (size_t row = 0; row < numbers.size(); ++row) {
    const EncodedTexts& text = texts[numbers[row]];
    const auto at = static_cast<ptrdiff_t>(row) * seq;
    std::ranges::copy(text.ids, tokens.begin() + at);
    std::ranges::copy(text.types, types.begin() + at);
    lengths.push_back(std::ssize(text.ids));
  }
  NamedTensors inputs = {{"tokens", Tensor::of({rows, seq}, tokens)}, {"lengths", Tensor::of(lengths)}};
  if (takes_input(entry, "token_types")) inputs.emplace("token_types", Tensor::of({rows, seq}, types));
  if (takes_input(entry, "prompt_lengths"))
    inputs.emplace("prompt_lengths",
                   Tensor::full({rows}, static_cast<double>(options.prompt_lengths), DType::i64));
  return inputs;
}

}  // namespace

EncoderTexts::EncoderTexts(const Model& model, const std::string& file)
    : vocabulary_(known_tokens(model).value_or(256)), longest_(longest_of(model, file)) {
  tokenizer_ = load_fitting_tokenizer("", model, file, vocabulary_);
  templates_.single.pieces = {{TextTemplate::Kind::kFirst}};
  if (const auto bytes = attached_file(model, "tokenizer.json"))
    templates_ = with_context([&] { return read_text_templates(*bytes); }, [&] { return file; });
}

EncodedTexts EncoderTexts::checked(EncodedTexts encoded) const {
  if (tokenizer_) check_have_rows(encoded.ids, vocabulary_, *tokenizer_);
  return encoded;
}

EncodedTexts EncoderTexts::encode(const std::string& text) const {
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  const std::vector<int64_t> ids =
      tokenizer_ ? tokenizer_->encode(text, false) : std::vector<int64_t>(bytes.begin(), bytes.end());
  return checked(templates_.single.apply(ids, {}, longest_));
}

EncodedTexts EncoderTexts::encode(const std::string& first, const std::string& second) const {
  if (!tokenizer_ || templates_.pair.pieces.empty())
    fail(
        "the model brings no tokenizer that says how a pair of texts is encoded (\"pair\" of its "
        "post_processor)");
  return checked(
      templates_.pair.apply(tokenizer_->encode(first, false), tokenizer_->encode(second, false), longest_));
}

int64_t EncoderTexts::tokens_of_prompt(const std::string& prompt) const {
  if (!tokenizer_ || prompt.empty()) return std::ssize(prompt);
  const std::vector<int64_t> ids = tokenizer_->encode(prompt);
  return std::ssize(ids) - (!ids.empty() && tokenizer_->is_added(ids.back()) ? 1 : 0);
}

Tensor run_in_batches(Session& session, const std::string& entry, const std::string& output,
                      const std::vector<EncodedTexts>& texts, const BatchOptions& options) {
  const Graph& graph = session.model().entry(entry);
  const int64_t features =
      graph.type(std::ranges::find(graph.outputs(), output, &NamedValue::name)->value).shape[1].value();
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t number) { return texts[number].ids.size(); });
  std::byte* rows;
  const Tensor result = Tensor::uninitialized({DType::f32, {std::ssize(texts), features}}, &rows);
  const auto row_bytes = static_cast<size_t>(features) * sizeof(float);
  const auto batch = static_cast<size_t>(std::max<int64_t>(1, options.batch));
  for (size_t first = 0; first < order.size(); first += batch) {
    const auto numbers = std::span(order).subspan(first, std::min(batch, order.size() - first));
    const Tensor part =
        session.run(entry, inputs_for(graph, texts, numbers, options)).at(output).to(DType::f32);
    for (size_t i = 0; i < numbers.size(); ++i)
      std::memcpy(rows + numbers[i] * row_bytes, part.data() + i * row_bytes, row_bytes);
  }
  return result;
}

}  // namespace genesis::text
