// Engines of the C interface: many texts at a time, as tokens.
#include "bindings/c/lm.h"
#include "executor/generation/engine.h"

struct gn_engine {
  std::shared_ptr<genesis::c::LanguageModel> lm;
  std::mutex stepping;  // held by step() and poll(); submit() and cancel() are for any thread
  std::mutex reading;   // held while submit() reads settings, which changes the model's note of warnings
  std::optional<genesis::generation::Engine> engine;

  ~gn_engine() {
    engine.reset();
    if (lm) lm->has_engine = false;
  }
};

namespace genesis::c {
namespace {

// Returns the options of a text. An engine knows tokens only, so it finds no stop strings.
generation::SamplingOptions options_for(const gn_engine& engine, const char* settings) {
  const text::GenerateSettings given = settings_of(settings);
  if (!given.stop_strings.empty())
    fail("settings: stop: an engine knows tokens only: look for the strings in the text, and cancel it");
  generation::SamplingOptions options = engine.lm->model.options(given);
  options.stop_strings.clear();
  return options;
}

}  // namespace
}  // namespace genesis::c

using namespace genesis;
using namespace genesis::c;

extern "C" {

gn_error* gn_engine_open(gn_lm* lm, const gn_engine_options* given, gn_engine** out) {
  return guarded("gn_engine_open", [&] {
    gn_engine*& result = output(out);
    const auto options = options_of(given, sizeof(gn_engine_options));
    const std::shared_ptr<LanguageModel> state = required(lm, "lm").state;
    const OnlyUser only(state->busy, "language model");
    if (state->has_engine) fail("the language model has an engine already");
    const int64_t rows = options.rows == 0 ? 8 : options.rows;
    const int64_t positions = options.positions == 0 ? state->model.longest_text() : options.positions;
    if (rows < 1 || rows > 4096 || positions < 1)
      throw BadArgument(
          fmt::format("rows is {} and positions {}, expected 1 to 4096 and 1 or more", rows, positions));
    state->model.set_cache(rows, positions);
    auto made = std::make_unique<gn_engine>();
    made->lm = state;
    state->has_engine = true;
    made->engine.emplace(state->model.session(), generation::EngineOptions{.reuse_prefixes = true});
    result = made.release();
  });
}

gn_error* gn_engine_submit(gn_engine* engine, const gn_tensor* prompt, const char* settings, uint64_t* id) {
  return guarded("gn_engine_submit", [&] {
    required(id, "id") = 0;
    gn_engine& e = required(engine, "engine");
    const auto tokens = required(prompt, "prompt").host().as<int64_t>();
    generation::Request request{.prompt = {tokens.begin(), tokens.end()}};
    {
      const std::lock_guard lock(e.reading);
      request.options = options_for(e, settings);
    }
    *id = static_cast<uint64_t>(e.engine->submit(std::move(request)));
  });
}

gn_error* gn_engine_cancel(gn_engine* engine, uint64_t id) {
  return guarded("gn_engine_cancel",
                 [&] { required(engine, "engine").engine->cancel(static_cast<generation::RequestId>(id)); });
}

gn_error* gn_engine_step(gn_engine* engine, int32_t* works) {
  return guarded("gn_engine_step", [&] {
    required(works, "works") = 0;
    gn_engine& e = required(engine, "engine");
    const OnlyUser only(e.stepping, "engine");
    *works = e.engine->step() ? 1 : 0;
  });
}

gn_error* gn_engine_poll(gn_engine* engine, uint64_t id, gn_tensor** tokens, int32_t* ended) {
  return guarded("gn_engine_poll", [&] {
    gn_tensor*& result = output(tokens, "tokens");
    required(ended, "ended") = 0;
    gn_engine& e = required(engine, "engine");
    const OnlyUser only(e.stepping, "engine");
    const generation::Progress progress = e.engine->poll(static_cast<generation::RequestId>(id));
    if (progress.result) {
      *ended = 1;
      if (progress.result->error) std::rethrow_exception(progress.result->error);
    }
    result = new_tensor(Tensor::of(progress.tokens), true);
  });
}

void gn_engine_free(gn_engine* engine) { delete engine; }

}  // extern "C"
