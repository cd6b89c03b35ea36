#include "models/serving/language_model.h"

#include <algorithm>

#include "executor/cache_pages.h"
#include "executor/generation/entry_points.h"
#include "executor/generation/rewinding.h"
#include "executor/runtime/device.h"
#include "executor/runtime/host_memory.h"
#include "executor/session_cache.h"
#include "models/chat/jinja/values/json_value.h"
#include "models/chat/json_config.h"
#include "models/generation/generator.h"
#include "models/serving/api_error.h"
#include "models/text/draft_source.h"
#include "models/tokenizer/unicode/byte_alphabet.h"
#include "models/zoo.h"
#include "schema/graph/caches.h"
#include "schema/messages/log.h"

namespace genesis::serving {
namespace {

constexpr int64_t kUsualContext = 4096;

bool has_byte_alphabet(const text::TextModel& texts) {
  return texts.tokenizer() && texts.tokenizer()->token_to_id(text::alphabet_text(" ")).has_value();
}

// Returns the byte of a token "<0x0A>" of a vocabulary of pieces.
std::optional<char> byte_of_piece(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return {};
  char* end = nullptr;
  const long value = std::strtol(token.c_str() + 3, &end, 16);
  return end == token.c_str() + 5 ? std::optional(static_cast<char>(value)) : std::nullopt;
}

std::string text_of_piece(std::string piece) {
  constexpr std::string_view kBlank = "\u2581";
  for (size_t at = 0; (at = piece.find(kBlank, at)) != std::string::npos; ++at)
    piece.replace(at, kBlank.size(), " ");
  return piece;
}

int64_t state_bytes(const State& state) {
  int64_t bytes = 0;
  for (const Tensor& part : state.encoded.parts) bytes += part.bytes();
  return bytes > 0 ? bytes : state.type.bytes();
}

std::shared_ptr<const Model> with_rows(const std::shared_ptr<const Model>& model,
                                       const LanguageOptions& options) {
  const CacheNeeds needs = cache_needs(*model, options);
  std::shared_ptr<const Model> sized = models::with_cache(*model, needs.rows, needs.positions);
  if (options.prefix_bytes > 0 && (!generation::can_rewind(*model) || generation::takes_text_length(*model)))
    fail(
        "--prefix-cache: texts of this model are read from their beginning, because its layers keep a state "
        "of the last token alone "
        "or its rotations depend on a text's length; leave it out");
  const int64_t on_host = are_mapped_pages(needs.page_bytes) ? 0 : options.cache_bytes;
  if (options.prefix_bytes > 0)
    check_host_has(on_host + options.prefix_bytes, "the KV cache and --prefix-cache");
  else if (on_host > 0)
    check_host_has(on_host, "the KV cache");
  if (options.cache_bytes == 0) check_cache_fits(*sized, options.session.device);
  return options.adapters.empty() ? sized : text::with_adapters(*sized, options.adapters);
}

}  // namespace

CacheNeeds cache_needs(const Model& model, const LanguageOptions& options) {
  CacheNeeds needs = {.rows = options.rows, .positions = options.text.context};
  if (needs.positions == 0) {
    const int64_t longest = models::longest_text(model);
    needs.positions =
        models::positions_for(model, longest > 0 ? std::min(longest, kUsualContext) : kUsualContext);
  }
  for (const State& state : model.states())
    if (!cache_layout(state)) needs.weight_bytes += state_bytes(state);
  needs.weight_bytes += text::adapter_bytes(options.adapters);
  if (options.cache_bytes > 0) {
    needs.page_bytes = cache_page_bytes(resolve_device(options.session.device));
    const int64_t longest = models::longest_text(model),
                  whole = whole_page_positions(model, needs.positions, needs.page_bytes);
    if (longest == 0 || whole <= longest) needs.positions = whole;
  }
  needs.row_bytes = cache_bytes(model, {1, needs.positions});
  needs.cache_bytes = needs.rows * needs.row_bytes;
  if (options.cache_bytes == 0) return needs;
  needs.row_bytes = row_bytes(model, needs, needs.positions);
  needs.cache_bytes = options.cache_bytes;
  return needs;
}

int64_t row_bytes(const Model& model, const CacheNeeds& needs, int64_t tokens) {
  if (needs.page_bytes == 0) return needs.row_bytes;
  // A request reserves the positions of a draft, too.
  const int64_t positions = tokens == 0 ? 0 : std::min(needs.positions, tokens + generation::kMaxVerified);
  return paged_row_bytes(model, positions, needs.positions, needs.page_bytes);
}

int64_t step_bytes(const std::shared_ptr<const Model>& model, const LanguageOptions& options) {
  Session session = text::open_for_generation(with_rows(model, options), options.session);
  std::optional<CachePages> pages;  // a device's memory has no room for all rows
  if (options.cache_bytes > 0 && are_mapped_pages(cache_page_bytes(session.device())))
    pages.emplace(session, CachePages::Use::kPages, options.cache_bytes);
  const int64_t positions = generation::positions_of_cache(session.model()),
                most = generation::rows_of_cache(session.model()) * positions;
  const int64_t chunk = std::min(options.text.prefill_chunk, positions);
  const char* fill =
      session.model().find_entry(generation::kFillRow) ? generation::kFillRow : generation::kFillCache;
  int64_t arena = session.plan(fill, {{"seq", chunk}}).arena_bytes;
  if (!options.reproducible && session.has_entry(generation::kFillPacked)) {
    const int64_t packed = std::min(options.text.prefill_chunk, most);
    arena = std::max(arena, session.plan(generation::kFillPacked, {{"seq", packed}}).arena_bytes);
  }
  for (const bool penalties : {false, true})
    arena = std::max(arena, session.plan(generation::decode_name({.penalties = penalties})).arena_bytes);
  for (const State& state : session.model().states())
    if (state.name.starts_with("sampling.")) arena += state.type.bytes();
  // A chunk of a prompt writes its row as a whole, until the rest is given back. Pages that are mapped take no more.
  return arena + (options.cache_bytes > 0 && !pages ? cache_bytes(session.model(), {1, positions}) : 0);
}

int64_t texts_of(const Model& model, const CacheNeeds& needs, int64_t tokens) {
  if (needs.page_bytes == 0) return needs.rows;
  const int64_t idle = row_bytes(model, needs, 0), text = row_bytes(model, needs, tokens);
  const int64_t free = std::max<int64_t>(needs.cache_bytes - needs.rows * idle, 0);
  return std::min(needs.rows, free / std::max<int64_t>(text - idle, 1));
}

LanguageModel::LanguageModel(const std::shared_ptr<const Model>& model, const std::string& file,
                             const LanguageOptions& options, Metrics& metrics)
    : options_(options),
      metrics_(metrics),
      texts_(model, file, options.session, options.text),
      has_byte_alphabet_(has_byte_alphabet(texts_)) {
  load_template(options.text);
  makers_ = texts_.options({});
  const bool has_drafts = !options.text.draft.empty();
  session_.emplace(text::open_for_generation(with_rows(model, options), options.session, has_drafts));
  engine_.emplace(*session_, engine_options());
  thread_ = std::thread([this] { run(); });
}

generation::EngineOptions LanguageModel::engine_options() const {
  const text::TextOptions& text = options_.text;
  generation::EngineOptions engine = {
      .prefill_chunk = text.prefill_chunk,
      .step_tokens = options_.step_tokens > 0 ? options_.step_tokens : text.prefill_chunk,
      .reuse_prefixes = true,
      .prefix_bytes = options_.prefix_bytes,
      .reproducible = options_.reproducible,
      .cache_bytes = options_.cache_bytes};
  if (text.draft.empty()) return engine;
  const int64_t vocabulary = generation::vocabulary_of(session_->model().entry("decode"), 2);
  const auto source =
      text::draft_source(text.draft, {texts_.file(), texts_.tokenizer(), vocabulary}, options_.session);
  engine.drafts = {.drafter = source({generation::rows_of_cache(session_->model()),
                                      generation::positions_of_cache(session_->model())}),
                   .most = text.draft_tokens};
  return engine;
}

LanguageModel::~LanguageModel() {
  stops_ = true;
  engine_->cancel(0);  // wakes the thread
  thread_.join();
}

void LanguageModel::load_template(const text::TextOptions& options) {
  try {
    if (!texts_.tokenizer()) fail("{} has no tokenizer: its tokens are bytes", texts_.file());
    template_ = options.chat_template.empty() ? chat::ChatTemplate::from(texts_.config_files())
                                              : chat::ChatTemplate::load(options.chat_template);
  } catch (const Error& error) {
    if (!options.chat_template.empty()) throw;
    no_template_ = error.message();
    return;
  }
  // Some models name the end of a turn only in the chat template's settings.
  if (const auto end = texts_.tokenizer()->token_to_id(template_->special_token("eos_token")))
    chat_ends_.push_back(*end);
}

void LanguageModel::run() {
  while (!stops_) {
    bool goes_on = true;
    try {
      goes_on = engine_->step();
    } catch (const std::exception& error) {  // a callback has thrown it, and its request has ended
      log_error("a request ended with an error: {}", error.what());
    }
    metrics_.set_load(engine_->load(), engine_->work());
    if (!goes_on) engine_->wait(1);
  }
}

std::vector<int64_t> LanguageModel::encode(const std::string& text, bool add_special_tokens) const {
  return texts_.tokenizer() ? texts_.tokenizer()->encode(text, add_special_tokens) : text::encode_bytes(text);
}

text::TokenText LanguageModel::token_text() const {
  if (!texts_.tokenizer()) return text::byte_text();
  const auto stream = std::make_shared<text::StreamDecoder>(*texts_.tokenizer());
  return {[stream](int64_t token) { return stream->add(token); }, [stream] { return stream->finish(); }};
}

std::string LanguageModel::token_bytes(int64_t token) const {
  if (!texts_.tokenizer()) return {static_cast<char>(token)};
  const std::string name = texts_.tokenizer()->id_to_token(token).value_or("");
  if (texts_.tokenizer()->is_added(token)) return name;
  if (has_byte_alphabet_) return text::alphabet_bytes(name).value_or(name);
  if (const auto byte = byte_of_piece(name)) return {*byte};
  return text_of_piece(name);
}

std::shared_ptr<const grammar::TokenTree> LanguageModel::token_tree() const {
  std::call_once(tree_made_, [this] {
    std::vector<std::string> bytes;
    for (int64_t token = 0; token < vocab_size(); ++token) {
      // Special tokens have no text.
      const bool has_text = !texts_.tokenizer() || !texts_.tokenizer()->is_added(token) ||
                            !texts_.tokenizer()->decode(std::vector{token}).empty();
      bytes.push_back(has_text ? token_bytes(token) : "");
    }
    tree_ = std::make_shared<const grammar::TokenTree>(bytes);
  });
  return tree_;
}

namespace {

// Returns the messages with an empty text for a content that is null or missing.
Json with_empty_contents(Json messages) {
  for (Json& message : messages)
    if (message.is_object() && message.value("content", Json()).is_null()) message["content"] = "";
  return messages;
}

}  // namespace

std::string LanguageModel::render(const Json& messages, const Json& variables) const {
  if (!template_)
    throw ApiError(400, "invalid_request_error", "no_chat_template",
                   fmt::format("this model cannot have conversations: {}", no_template_), "messages");
  const jinja::Value values = jinja::parse_json(variables.dump());
  const auto rendered = [&](const Json& shown) {
    return template_
        ->render(chat::parse_messages(shown.dump()),
                 {.add_generation_prompt = true, .variables = *values.dict()})
        .text;
  };
  try {
    return rendered(messages);
  } catch (const Error& error) {
    // Calls of tools come without a content, which templates that know no tools need.
    const Json with_contents = with_empty_contents(messages);
    if (with_contents == messages) refuse("messages", "{}", error.message());
    return render(with_contents, variables);
  }
}

text::GenerateOptions LanguageModel::options(const text::GenerateSettings& settings, bool is_chat) const {
  text::GenerateOptions options = settings.over(makers_);
  if (!is_chat || settings.ignore_eos) return options;
  return text::GenerateSettings{.stop_tokens = chat_ends_}.over(std::move(options));
}

int64_t LanguageModel::room_behind(const std::vector<int64_t>& prompt) const {
  const int64_t size = std::ssize(prompt);
  if (size == 0)
    refuse("prompt", "the prompt is empty: a language model needs at least one token to go on from");
  if (size >= capacity())
    throw ApiError(
        400, "invalid_request_error", "context_length_exceeded",
        fmt::format(
            "the prompt has {} tokens, and a text here has {} at most, its answer included: shorten it, "
            "or start the server with a larger --context",
            size, capacity()),
        "messages");
  for (const int64_t token : prompt)
    if (token < 0 || token >= vocab_size())
      refuse("prompt", "the token {} is none of the model's {}", token, vocab_size());
  return capacity() - size;
}

void LanguageModel::reserve(int64_t count) {
  const int64_t most = rows() + options_.queue;
  if (count > most) refuse("n", "a request of {} texts: this server takes {} at a time", count, most);
  for (int64_t taken = taken_; taken + count <= most;)
    if (taken_.compare_exchange_weak(taken, taken + count)) return;
  throw ApiError(
      429, "rate_limit_error", "queue_full",
      fmt::format("{} requests run or wait, which are all that this server takes: try again later", most));
}

void LanguageModel::release(int64_t count) { taken_ -= count; }

generation::RequestId LanguageModel::submit(generation::Request request) {
  request.on_result = [this, deliver = std::move(request.on_result)](generation::Result result) {
    metrics_.count_result(result);
    try {
      deliver(std::move(result));
    } catch (const std::exception& error) {
      log_error("an answer could not be made: {}", error.what());
    }
    release(1);
  };
  return engine_->submit(std::move(request));
}

}  // namespace genesis::serving
