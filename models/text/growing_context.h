// A session that generates text, with its KV cache. When a text outgrows the cache, the cache grows and keeps what was read.
// Ranks, which keep parts of a cache, open a session with a longer cache instead, and the text is prefilled again. The session is
// opened when it is first used.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "models/generation/generator.h"

namespace genesis::text {

class GrowingContext {
 public:
  // `on_growth` is called with the positions of the longer cache.
  GrowingContext(std::shared_ptr<const Model> model, SessionOptions options, GeneratorOptions generating,
                 std::function<void(int64_t positions)> on_growth = {})
      : model_(std::move(model)),
        options_(std::move(options)),
        generating_(std::move(generating)),
        on_growth_(std::move(on_growth)) {}

  Session& session();
  Generator& generator();
  // Makes the cache as long as a text of `tokens` tokens needs, as far as the model can read such a text (models::with_room).
  // With ranks, generator() may be a new one afterwards, which holds no text yet. Throws Error if there is no memory for it; the
  // old cache stays.
  void make_room(int64_t tokens);
  // Replaces the model by one with other caches. The session must not be open yet.
  void set_model(std::shared_ptr<const Model> model) { model_ = std::move(model); }
  // Returns the model with the session's caches, which takes a moment after the cache has grown.
  const std::shared_ptr<const Model>& model();
  // Returns the same model with caches as long as these or shorter: for all that does not depend on them.
  const std::shared_ptr<const Model>& model_of_any_length() const { return model_; }
  // Returns the positions of the session's cache.
  int64_t positions() const;

  const std::string& device() const { return options_.device; }

 private:
  void open(const std::shared_ptr<const Model>& model);
  void reopen(const std::shared_ptr<const Model>& larger);

  std::shared_ptr<const Model> model_;
  std::optional<int64_t> grown_;  // positions of the session's cache, if it is longer than that of model_
  const SessionOptions options_;
  const GeneratorOptions generating_;
  const std::function<void(int64_t)> on_growth_;
  std::optional<Session> session_;
  std::optional<Generator> generator_;
};

}  // namespace genesis::text
