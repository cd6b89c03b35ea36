#include "models/text/text_model.h"

#include <algorithm>

#include "executor/session_cache.h"
#include "models/chat/dialogue.h"
#include "models/chat/generation_config.h"
#include "models/chat/jinja/values/json_value.h"
#include "models/generation/sampling_entries.h"
#include "models/generation/vocabulary.h"
#include "models/open_model.h"
#include "models/text/draft_source.h"
#include "models/text/growing_context.h"
#include "models/text/load_tokenizer.h"
#include "models/text/text_codec.h"
#include "models/zoo.h"
#include "passes/core/quantized_cache.h"
#include "schema/core/setting_error.h"
#include "schema/messages/log.h"

namespace genesis::text {
namespace {

jinja::Dict variables_in(const std::string& json) {
  if (json.empty()) return {};
  jinja::Value value;
  try {
    value = jinja::parse_json(json);
  } catch (const Error& error) {
    fail_setting("--variables: {}", error.message());
  }
  if (!value.dict()) fail_setting("--variables: expected a JSON object, got {}", type_name(value));
  return *value.dict();
}

GeneratorOptions generator_options(const TextOptions& given, const TextCodec& codec, const Model& model,
                                   const std::string& file, const SessionOptions& session) {
  GeneratorOptions options = {.text = codec.token_text(), .prefill_chunk = given.prefill_chunk};
  if (given.draft.empty()) return options;
  const int64_t vocabulary = vocabulary_of(model.entry("decode"), 2);
  options.drafter = draft_source(given.draft, {file, codec.tokenizer(), vocabulary}, session);
  options.draft_tokens = given.draft_tokens;
  return options;
}

std::shared_ptr<const Model> with_cache_dtype(std::shared_ptr<const Model> model, const std::string& file,
                                              const std::string& dtype, const Mesh& mesh) {
  if (dtype.empty()) return model;
  if (dtype != "q8") fail_setting("cache_dtype '{}': expected q8", dtype);
  if (mesh.ranks() > 1) fail_setting("cache_dtype q8: a cache in 8 bits is for one device, not for a mesh");
  if (!model || passes::has_quantized_cache(*model)) return model;
  return with_context([&] { return passes::with_quantized_cache(*model); }, [&] { return file; });
}

bool has_unknown(const TokenBias& bias, int64_t vocabulary) {
  return std::ranges::any_of(bias.tokens, [&](int64_t token) { return token >= vocabulary; });
}

}  // namespace

void check_variables(const std::string& json) { variables_in(json); }

struct TextModel::Impl {
  Impl(const std::shared_ptr<const Model>& model, const std::string& name, const SessionOptions& session,
       const TextOptions& given)
      : file(name),
        options(given),
        codec(*model, name, given.tokenizer),
        context(with_cache_dtype(model, name, given.cache_dtype, session.mesh), session,
                generator_options(given, codec, *model, name, session), given.on_growth) {}

  const Model& model() const { return *context.model_of_any_length(); }
  int64_t vocab_size() const { return vocabulary_of(model().entry("decode"), 2); }
  chat::ConfigFiles config_files() const {
    if (!options.tokenizer.empty()) return text::config_files(options.tokenizer, model(), file);
    return chat::ConfigFiles::of_model(context.model_of_any_length(), file);
  }
  void make_room(int64_t tokens);
  void set_cache(int64_t rows, int64_t positions);
  Generator& generator() {
    if (options.context > 0) make_room(options.context);
    return context.generator();
  }
  GenerateOptions resolved(const GenerateSettings& settings, const GenerateOptions& standard);
  GenerateResult continued(const std::vector<int64_t>& prompt, const GenerateOptions& chosen,
                           const OnPiece& on_piece, int64_t longest);

  const std::string file;
  const TextOptions options;
  const TextCodec codec;
  GrowingContext context;
  bool has_size = false;    // the cache has the size that was asked for
  bool has_warned = false;  // the makers' settings that are not applied were named
};

void TextModel::Impl::make_room(int64_t tokens) {
  if (options.context == 0) return with_context([&] { context.make_room(tokens); }, [&] { return file; });
  if (!has_size)
    with_context([&] { set_cache(rows_of_cache(model()), options.context); },
                 [&] { return fmt::format("with --context {} for {}", options.context, file); });
}

void TextModel::Impl::set_cache(int64_t rows, int64_t positions) {
  std::shared_ptr<const Model> sized = models::with_cache(model(), rows, positions);
  check_cache_fits(*sized, context.device());
  context.set_model(std::move(sized));
  has_size = true;
}

GenerateOptions TextModel::Impl::resolved(const GenerateSettings& settings, const GenerateOptions& standard) {
  const chat::ConfigFiles files = config_files();
  GenerateOptions result = chat::read_generation_config(files, standard);
  if (!std::exchange(has_warned, true))
    for (const std::string& warning : chat::generation_warnings(files, vocab_size()))
      log_warning("{}", warning);
  // Biases of tokens that the model does not have count for nothing in transformers, too.
  std::erase_if(result.logit_bias, [&](const TokenBias& bias) { return has_unknown(bias, vocab_size()); });
  result = settings.over(std::move(result));
  if (settings.ignore_eos) return result;
  return GenerateSettings{.stop_tokens = codec.end_tokens()}.over(std::move(result));
}

// Continues a text of its own. What the cache holds of the prompt is not read again if it is all of it.
GenerateResult TextModel::Impl::continued(const std::vector<int64_t>& prompt, const GenerateOptions& chosen,
                                          const OnPiece& on_piece, int64_t longest) {
  const int64_t size = std::ssize(prompt), room = std::max<int64_t>(longest - size, 0);
  make_room(size + std::min(chosen.max_tokens, room));
  return with_context([&] { return generator().continue_prompt(prompt, chosen, on_piece); },
                      [&] { return file; });
}

struct Chat::Impl {
  std::shared_ptr<TextModel::Impl> model;
  std::string template_place;
  std::optional<chat::Dialogue> dialogue;
};

Chat::Chat(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Chat::~Chat() = default;
Chat::Chat(Chat&&) noexcept = default;

GenerateResult Chat::answer(const std::string& message, const OnPiece& on_piece) {
  return impl_->dialogue->reply(message, on_piece).result;
}
void Chat::reset() { impl_->dialogue->reset(); }
chat::Dialogue& Chat::dialogue() { return *impl_->dialogue; }
std::string Chat::template_place() const { return impl_->template_place; }

TextModel TextModel::open(const std::string& path, SessionOptions session, TextOptions options) {
  return TextModel(models::open_model(path), path, std::move(session), std::move(options));
}

TextModel::TextModel(std::shared_ptr<const Model> model, const std::string& file, SessionOptions session,
                     TextOptions options)
    : impl_(std::make_shared<Impl>(std::move(model), file, std::move(session), options)) {}
TextModel::~TextModel() = default;
TextModel::TextModel(TextModel&&) noexcept = default;

GenerateResult TextModel::generate(const std::string& prompt, const GenerateSettings& settings,
                                   const OnPiece& on_piece) {
  return generate_from(encode(prompt), settings, on_piece);
}

GenerateResult TextModel::generate_from(const std::vector<int64_t>& prompt, const GenerateSettings& settings,
                                        const OnPiece& on_piece) {
  return impl_->continued(prompt, options(settings), on_piece, longest_text());
}

std::vector<GenerateResult> TextModel::generate_samples(const std::vector<int64_t>& prompt, int64_t count,
                                                        const GenerateSettings& settings) {
  std::vector<GenerateResult> results;
  GenerateOptions each = options(settings);
  for (int64_t i = 0; i < count; ++i, ++each.seed)
    results.push_back(impl_->continued(prompt, each, {}, longest_text()));
  return results;
}

Chat TextModel::chat(const ChatOptions& options) {
  const std::string& other = impl_->options.chat_template;
  jinja::Dict variables = variables_in(options.variables);
  if (!tokenizer())
    fail("{} brings no tokenizer: name the folder that it came from with --tokenizer", file());
  const chat::ConfigFiles files = config_files();
  const chat::ChatTemplate chat = other.empty()
                                      ? with_context([&] { return chat::ChatTemplate::from(files); },
                                                     [] { return "--template names another"; })
                                      : chat::ChatTemplate::load(other);
  GenerateOptions generate = this->options(options.generate, {.max_tokens = 1024});
  // Some models name the end of a turn only in the chat template's settings.
  if (const auto end = tokenizer()->token_to_id(chat.special_token("eos_token")))
    generate = GenerateSettings{.stop_tokens = {*end}}.over(std::move(generate));
  const char* const beside =
      files.find("chat_template.jinja") ? "chat_template.jinja" : "tokenizer_config.json";
  auto made = std::make_unique<Chat::Impl>();
  made->model = impl_;
  made->template_place = other.empty() ? files.where(beside) : other;
  Impl& model = *impl_;
  const auto make_room = [&model](int64_t tokens) -> Generator& {
    model.make_room(tokens);
    return model.generator();
  };
  made->dialogue.emplace(
      chat, *tokenizer(), model.generator(),
      chat::DialogueOptions{options.system, std::move(variables), std::move(generate), make_room});
  return Chat(std::move(made));
}

const std::string& TextModel::file() const { return impl_->file; }
const Model& TextModel::model() const { return *impl_->context.model(); }
const std::optional<Tokenizer>& TextModel::tokenizer() const { return impl_->codec.tokenizer(); }
std::vector<int64_t> TextModel::encode(const std::string& text) const { return impl_->codec.encode(text); }
std::string TextModel::decode(const std::vector<int64_t>& tokens) const {
  return impl_->codec.decode(tokens);
}
const std::vector<int64_t>& TextModel::end_tokens() const { return impl_->codec.end_tokens(); }
int64_t TextModel::vocab_size() const { return impl_->vocab_size(); }

int64_t TextModel::longest_text() const {
  if (impl_->options.context > 0) return impl_->options.context;
  return std::max(impl_->context.positions(), models::longest_text(impl_->model()));
}

GenerateOptions TextModel::options(const GenerateSettings& settings, const GenerateOptions& standard) const {
  return impl_->resolved(settings, standard);
}

chat::ConfigFiles TextModel::config_files() const { return impl_->config_files(); }
void TextModel::make_room(int64_t tokens) { impl_->make_room(tokens); }
void TextModel::set_cache(int64_t rows, int64_t positions) { impl_->set_cache(rows, positions); }
Generator& TextModel::generator() { return impl_->generator(); }
Session& TextModel::session() {
  impl_->generator();
  return impl_->context.session();
}

}  // namespace genesis::text
