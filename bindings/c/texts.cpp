// Language models, vectors of texts and training jobs of the C interface.
#include <algorithm>

#include "bindings/c/lm.h"
#include "models/chat/chat_template.h"
#include "models/chat/dialogue.h"
#include "models/chat/json_config.h"
#include "models/hub/open_any.h"
#include "models/jobs/train_job.h"
#include "models/text/embedder.h"
#include "models/text/sampling_settings.h"
#include "schema/file/json_text.h"

struct gn_reply {
  genesis::text::GenerateResult result;
  std::string stop_reason;
};
struct gn_embedder {
  std::mutex busy;
  genesis::text::Embedder embedder;
};

namespace genesis::c {
namespace {

[[noreturn]] void refuse(const std::string& name, const nlohmann::json& json, const std::string& expected) {
  fail("settings: {} is {}, expected {}", name, json.dump(), expected);
}

// Reads `stop`, a text or a list of texts.
std::vector<std::string> stops_of(const nlohmann::json& json) {
  std::vector<std::string> stops;
  const nlohmann::json list = json.is_array() ? json : nlohmann::json::array({json});
  for (const auto& stop : list) {
    if (!stop.is_string() || stop.get<std::string>().empty())
      refuse("stop", json, "a text or a list of texts");
    stops.push_back(stop);
  }
  return stops;
}

template <class T>
T number_of(const std::string& name, const nlohmann::json& json, const Range<T>& range) {
  const bool fits = std::is_integral_v<T> ? json.is_number_integer() : json.is_number();
  if (!fits) refuse(name, json, range.text(false));
  return number_or_fail<T>("settings: " + name, json.dump(), range);
}

// Reads one setting of a token's choice; returns false if there is none of this name.
bool read_sampling(text::GenerateSettings& settings, const std::string& name, const nlohmann::json& json) {
  bool is_known = false;
  text::visit_sampling([&](const char* known, auto, auto field, const auto& range, auto, auto) {
    if (name != known) return;
    is_known = true;
    settings.*field = number_of(name, json, range);
  });
  return is_known;
}

text::OnPiece pieces_to(gn_on_text on_text, void* user) {
  if (!on_text) return {};
  return [=](const text::Piece& piece) {
    return piece.text.empty() ? true : on_text(piece.text.c_str(), piece.text.size(), user) == 0;
  };
}

gn_reply* new_reply(text::GenerateResult result) {
  std::string reason(text::name_of(result.stop_reason));
  return new gn_reply{std::move(result), std::move(reason)};
}

// Throws Error if an engine uses the model's session.
void check_writes(const gn_lm* lm) {
  if (lm->state->has_engine)
    fail("an engine uses the language model: free the engine, or open the model again");
}

template <class Body>
gn_error* with_lm(const char* function, gn_lm* lm, const Body& body) {
  return guarded(function, [&] {
    LanguageModel& state = *required(lm, "lm").state;
    const OnlyUser only(state.busy, "language model");
    body(state.model);
  });
}

gn_train_step step_of(const TrainMetrics& step) {
  return {sizeof(gn_train_step), step.step,          step.loss,   step.evaluation_loss,
          step.grad_norm,        step.learning_rate, step.seconds};
}

std::vector<std::string> data_of(const gn_train_options& options) {
  std::vector<std::string> data;
  if (options.data_count > 0) required(options.data, "data");
  for (size_t i = 0; i < options.data_count; ++i) data.push_back(text_of(options.data[i], "a name in data"));
  return data;
}

int64_t or_default(int64_t given, int64_t standard) { return given == 0 ? standard : given; }

jobs::TrainJob job_of(const gn_train_options& options) {
  jobs::TrainJob job{.model = text_of(options.model, "model"), .data = data_of(options)};
  job.source.batch_size = or_default(options.batch, job.source.batch_size);
  job.source.sequence_length = or_default(options.sequence, job.source.sequence_length);
  job.source.seed = options.seed;
  job.optimizer = text_or_empty(options.optimizer);
  job.steps = or_default(options.steps, job.steps);
  job.output = text_or_empty(options.output);
  job.checkpoint = text_or_empty(options.checkpoint);
  job.resume = options.checkpoint != nullptr;
  job.session = session_options(options.device, options.threads);
  return job;
}

}  // namespace

text::GenerateSettings settings_of(const char* given) {
  text::GenerateSettings settings;
  const std::string text = text_or_empty(given);
  if (text.empty()) return settings;
  const nlohmann::json members = parse_json_object(text, "settings");
  for (const auto& [name, json] : members.items()) {
    if (name == "max_tokens") {
      settings.max_tokens = number_of(name, json, at_least<int64_t>(1));
    } else if (name == "stop") {
      settings.stop_strings = stops_of(json);
    } else if (name == "ignore_eos") {
      if (!json.is_boolean()) refuse(name, json, "true or false");
      settings.ignore_eos = json;
    } else if (!read_sampling(settings, name, json)) {
      fail("settings: there is no setting '{}': include/genesis/genesis_c.h lists them at gn_lm_generate()",
           name);
    }
  }
  return settings;
}

}  // namespace genesis::c

using namespace genesis;
using namespace genesis::c;

extern "C" {

gn_error* gn_lm_open(const char* path, const gn_lm_options* given, gn_lm** out) {
  return guarded("gn_lm_open", [&] {
    gn_lm*& result = output(out);
    const auto options = options_of(given, sizeof(gn_lm_options));
    text::TextOptions texts{.tokenizer = text_or_empty(options.tokenizer),
                            .chat_template = text_or_empty(options.chat_template),
                            .context = options.context,
                            .draft = text_or_empty(options.draft)};
    if (options.context < 0)
      throw BadArgument(fmt::format("context is {}, expected 0 or more", options.context));
    const std::string file = text_of(path, "path");
    text::TextModel model(models::open_any(file), file, session_options(options.device, options.threads),
                          std::move(texts));
    result = new gn_lm{std::make_shared<LanguageModel>(std::move(model))};
  });
}

gn_error* gn_lm_generate(gn_lm* lm, const char* prompt, const char* settings, gn_on_text on_text, void* user,
                         gn_reply** out) {
  clear(out);
  return with_lm("gn_lm_generate", lm, [&](text::TextModel& model) {
    gn_reply*& result = output(out);
    check_writes(lm);
    result =
        new_reply(model.generate(text_of(prompt, "prompt"), settings_of(settings), pieces_to(on_text, user)));
  });
}

gn_error* gn_lm_chat(gn_lm* lm, const char* messages, const char* settings, gn_on_text on_text, void* user,
                     gn_reply** out) {
  clear(out);
  return with_lm("gn_lm_chat", lm, [&](text::TextModel& model) {
    gn_reply*& result = output(out);
    check_writes(lm);
    const auto conversation = chat::parse_conversation(text_of(messages, "messages"));
    text::Chat chat = model.chat({.generate = settings_of(settings)});
    chat.dialogue().set_conversation(conversation);
    result = new_reply(chat.dialogue().answer_again(pieces_to(on_text, user)).result);
  });
}

gn_error* gn_lm_render(gn_lm* lm, const char* messages, char** out) {
  clear(out);
  return with_lm("gn_lm_render", lm, [&](text::TextModel& model) {
    char*& result = output(out);
    const auto conversation = chat::parse_conversation(text_of(messages, "messages"));
    const auto chat = chat::ChatTemplate::from(model.config_files());
    result = new_text(chat.render(conversation.messages,
                                  {.add_generation_prompt = true, .variables = conversation.variables})
                          .text);
  });
}

gn_error* gn_lm_encode(gn_lm* lm, const char* text, gn_tensor** out) {
  clear(out);
  return with_lm("gn_lm_encode", lm, [&](text::TextModel& model) {
    gn_tensor*& result = output(out);
    result = new_tensor(Tensor::of(model.encode(text_of(text, "text"))), true);
  });
}

gn_error* gn_lm_decode(gn_lm* lm, const gn_tensor* tokens, char** out) {
  clear(out);
  return with_lm("gn_lm_decode", lm, [&](text::TextModel& model) {
    char*& result = output(out);
    const auto numbers = required(tokens, "tokens").host().as<int64_t>();
    for (const int64_t token : numbers)
      if (token < 0 || token >= model.vocab_size())
        fail("tokens: {} is no token, expected 0 to {}", token, model.vocab_size() - 1);
    result = new_text(model.decode({numbers.begin(), numbers.end()}));
  });
}

const char* gn_reply_text(const gn_reply* reply) { return reply ? reply->result.text.c_str() : ""; }
const char* gn_reply_stop_reason(const gn_reply* reply) { return reply ? reply->stop_reason.c_str() : ""; }
int64_t gn_reply_prompt_tokens(const gn_reply* reply) { return reply ? reply->result.prefilled : 0; }
int64_t gn_reply_tokens(const gn_reply* reply) { return reply ? std::ssize(reply->result.tokens) : 0; }
double gn_reply_seconds(const gn_reply* reply) {
  return reply ? reply->result.prefill_seconds + reply->result.decode_seconds : 0;
}
void gn_reply_free(gn_reply* reply) { delete reply; }
void gn_lm_free(gn_lm* lm) { delete lm; }

gn_error* gn_embedder_open(const char* path, const gn_session_options* given, gn_embedder** out) {
  return guarded("gn_embedder_open", [&] {
    gn_embedder*& result = output(out);
    const auto options = options_of(given, sizeof(gn_session_options));
    const std::string file = text_of(path, "path");
    result = new gn_embedder{
        {}, text::Embedder(models::open_any(file), file, session_options(options.device, options.threads))};
  });
}

gn_error* gn_embedder_encode(gn_embedder* embedder, const char* const* texts, size_t count,
                             const char* prompt, gn_tensor** out) {
  return guarded("gn_embedder_encode", [&] {
    gn_tensor*& result = output(out);
    const OnlyUser only(required(embedder, "embedder").busy, "embedder");
    if (count > 0) required(texts, "texts");
    std::vector<std::string> all;
    for (size_t i = 0; i < count; ++i) all.push_back(text_of(texts[i], "a text"));
    result = new_tensor(embedder->embedder.encode(all, {.prompt_name = text_or_empty(prompt)}), true);
  });
}

void gn_embedder_free(gn_embedder* embedder) { delete embedder; }

gn_error* gn_train(const gn_train_options* given, gn_train_step* last) {
  return guarded("gn_train", [&] {
    const auto options = options_of(&required(given, "options"), sizeof(gn_train_options));
    jobs::TrainJob job = job_of(options);
    job.quiet = true;
    int asked = 0;
    job.on_step = [&](const TrainMetrics& metrics) {
      const gn_train_step step = step_of(metrics);
      if (options.on_step && options.on_step(&step, options.user) != 0) asked = 1;
    };
    job.should_stop = [&] { return asked; };
    const jobs::TrainResult result = jobs::train(job);
    if (last) *last = step_of(result.last);
  });
}

}  // extern "C"
