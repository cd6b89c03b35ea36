#include "executor/session_cache.h"

#include "executor/runtime/device.h"
#include "executor/runtime/host_memory.h"
#include "passes/core/cache_size.h"
#include "schema/graph/caches.h"

namespace genesis {

std::shared_ptr<const Model> with_cache(std::shared_ptr<const Model> model, const SessionOptions& options) {
  if (!options.cache || options.cache == cache_size(*model)) return model;
  return passes::with_cache_size(*model, *options.cache);
}

std::shared_ptr<const Model> with_longer_cache(const Model& model, int64_t positions, const Mesh& mesh) {
  const std::optional<CacheSize> now = cache_size(model);
  if (mesh.ranks() > 1)
    fail(
        "the cache of a session of several ranks cannot grow, because each rank keeps a part of it: open "
        "another session with SessionOptions::cache");
  if (now && positions < now->positions)
    fail("the cache cannot grow to {} positions: it has {}", positions, now->positions);
  return passes::with_cache_size(model, {now ? now->rows : 1, positions});
}

void check_cache_fits(const Model& model, const std::string& device) {
  const std::optional<CacheSize> size = cache_size(model);
  if (size && resolve_device(device) == "cpu")
    check_host_has(cache_bytes(model, *size),
                   fmt::format("a KV cache of {} rows of {} positions", size->rows, size->positions));
}

namespace {

// Returns true if a state of this type can be the beginning of `own`: of a cache that declares its rows, the first rows.
bool is_beginning(const State& own, const TensorType& type) {
  if (type == own.type) return true;
  if (own.role != StateRole::kCache || type.dtype != own.type.dtype || type.bytes() > own.type.bytes())
    return false;
  const auto layout = cache_layout(own);
  if (!layout) return true;
  Shape rows = own.type.shape;
  rows[0] = type.shape.rank() > 0 ? type.shape[0] : Dim(0);
  return layout->rows_axis == 0 && rows == type.shape;
}

}  // namespace

void check_beginnings(const Model& model, const Model& smaller) {
  if (model.states().size() != smaller.states().size())
    fail("the model of more entry points has {} states, the session's has {}", smaller.states().size(),
         model.states().size());
  for (size_t i = 0; i < model.states().size(); ++i) {
    const State &own = model.states()[i], &other = smaller.states()[i];
    const bool fits = is_beginning(own, other.type);
    if (own.name != other.name || !fits)
      fail("state {} of the model of more entry points is {} '{}', the session's is {} '{}'", i,
           other.type.to_string(), other.name, own.type.to_string(), own.name);
  }
}

std::unique_ptr<Model> with_caches_of(const Model& model, const Model& tables) {
  std::unique_ptr<Model> resized = Model::with_tables_of(tables);
  for (size_t i = 0; i < model.states().size(); ++i)
    if (const State& state = model.states()[i]; cache_layout(state))
      resized->set_shape(static_cast<int32_t>(i), state.type.shape);
  return resized;
}

}  // namespace genesis
