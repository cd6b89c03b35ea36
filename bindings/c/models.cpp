// Models and sessions of the C interface.
#include <set>

#include "bindings/c/handles.h"
#include "executor/runtime/device_tensors.h"
#include "models/hub/open_any.h"
#include "passes/training/train_step.h"
#include "schema/file/json_text.h"
#include "schema/file/writer.h"

namespace genesis::c {
namespace {

using Json = nlohmann::ordered_json;

// Sizes are numbers, and texts if they are known when the model runs.
Json shape_json(const Shape& shape) {
  Json sizes = Json::array();
  for (const Dim& dim : shape) {
    if (dim.is_constant())
      sizes.push_back(dim.value());
    else
      sizes.push_back(dim.to_string());
  }
  return sizes;
}

Json value_json(const std::string& name, const TensorType& type) {
  return {{"name", name}, {"dtype", name_of(type.dtype)}, {"shape", shape_json(type.shape)}};
}

// The inputs or the outputs of an entry point.
struct Side {
  const char* name;
  size_t (*count)(const Graph& graph);
  std::pair<const std::string&, const TensorType&> (*at)(const Graph& graph, size_t index);
};
constexpr Side kInputs{"inputs", [](const Graph& g) { return g.inputs().size(); },
                       [](const Graph& g, size_t i) -> std::pair<const std::string&, const TensorType&> {
                         const ValueInfo& value = g.value(g.inputs()[i]);
                         return {value.name, value.type};
                       }};
constexpr Side kOutputs{"outputs", [](const Graph& g) { return g.outputs().size(); },
                        [](const Graph& g, size_t i) -> std::pair<const std::string&, const TensorType&> {
                          const NamedValue& value = g.outputs()[i];
                          return {value.name, g.type(value.value)};
                        }};

Json entry_json(const Graph& graph) {
  Json json = Json::object();
  for (const Side& side : {kInputs, kOutputs}) {
    json[side.name] = Json::array();
    for (size_t i = 0; i < side.count(graph); ++i) {
      const auto [name, type] = side.at(graph, i);
      json[side.name].push_back(value_json(name, type));
    }
  }
  return json;
}

Json model_json(const Model& model) {
  Json json{{"entries", Json::object()}, {"states", Json::array()}, {"metadata", Json::object()}};
  std::set<std::string> ops;
  for (const auto& graph : model.entries()) {
    json["entries"][graph->name()] = entry_json(*graph);
    for (const Node& node : graph->nodes()) ops.insert(std::string(node.op->name()));
  }
  for (const State& state : model.states()) {
    json["states"].push_back(value_json(state.name, state.type));
    json["states"].back()["role"] = name_of(state.role);
  }
  for (const auto& [key, text] : model.metadata) json["metadata"][key] = text;
  json["ops"] = ops;
  return json;
}

void describe(const std::string& name, const TensorType& type, gn_value_info& out) {
  gn_value_info info{};
  info.struct_size = sizeof(info);
  info.name = name.c_str();
  info.dtype = static_cast<int32_t>(type.dtype);
  info.rank = type.shape.rank();
  for (int i = 0; i < info.rank; ++i) info.sizes[i] = type.shape[i].constant().value_or(-1);
  out = info;
}

gn_value_info& info_of(gn_value_info* out) {
  if (required(out, "out").struct_size != sizeof(gn_value_info))
    throw BadArgument(fmt::format("struct_size is {}, expected {}: set it to sizeof the struct",
                                  out->struct_size, sizeof(gn_value_info)));
  return *out;
}

const Graph& entry_of(const gn_model* model, const char* entry) {
  return required(model, "model").model->entry(text_of(entry, "entry"));
}

gn_error* count_of(const char* function, const gn_model* model, const char* entry, const Side& side,
                   size_t* out) {
  const auto body = [&] {
    required(out, "out") = 0;
    *out = side.count(entry_of(model, entry));
  };
  return guarded(function, body, entry);
}

gn_error* describe_one(const char* function, const gn_model* model, const char* entry, const Side& side,
                       size_t index, gn_value_info* out) {
  const auto body = [&] {
    gn_value_info& info = info_of(out);
    const Graph& graph = entry_of(model, entry);
    const size_t count = side.count(graph);
    if (index >= count)
      throw BadArgument(
          fmt::format("index is {}, but entry point '{}' has {} {}", index, entry, count, side.name));
    const auto [name, type] = side.at(graph, index);
    describe(name, type, info);
  };
  return guarded(function, body, entry);
}

// Tensors on the GPU of the session stay there.
NamedTensors inputs_of(const gn_session& session, const char* const* names, const gn_tensor* const* tensors,
                       size_t count) {
  NamedTensors inputs;
  if (count == 0) return inputs;
  required(names, "names");
  required(tensors, "tensors");
  for (size_t i = 0; i < count; ++i) {
    const std::string name = text_of(names[i], "a name");
    const gn_tensor& tensor = required(tensors[i], "a tensor");
    const bool stays = tensor.on_gpu && tensor.on_gpu->gpu() == session.gpu;
    if (!inputs.emplace(name, stays ? tensor.tensor : tensor.host()).second)
      fail("the input '{}' was given twice: give each input once", name);
  }
  return inputs;
}

// Calls body(session) while no other thread uses the session.
template <class Body>
gn_error* with_session(const char* function, const gn_session* session, const Body& body,
                       const char* entry = "") {
  return guarded(
      function,
      [&] {
        gn_session& given = const_cast<gn_session&>(required(session, "session"));
        const OnlyUser only(given.busy, "session");
        body(*given.session);
      },
      entry);
}

int gpu_named(const std::string& device) {
  if (!device.starts_with("cuda")) return -1;
  return device.size() > 5 ? std::stoi(device.substr(5)) : 0;
}

// Takes the outputs of a run that are in the memory of a GPU.
gn_tensors* new_tensors(const std::vector<DeviceOutput>& outputs, int gpu) {
  auto made = std::make_unique<gn_tensors>();
  for (const DeviceOutput& output : outputs) {
    made->names.push_back(output.name);
    made->tensors.push_back(
        on_gpu(tensor_on_gpu(output.type, output.memory, output.memory.get(), gpu), gpu, true));
  }
  return made.release();
}

}  // namespace

SessionOptions session_options(const char* device, int32_t threads) {
  SessionOptions options;
  if (device) options.device = device;
  options.threads = threads;
  return options;
}

}  // namespace genesis::c

using namespace genesis;
using namespace genesis::c;

extern "C" {

gn_error* gn_model_open(const char* path, gn_model** out) {
  return guarded("gn_model_open", [&] {
    gn_model*& result = output(out);
    result = new gn_model{models::open_any(text_of(path, "path"))};
  });
}

gn_error* gn_model_create(gn_model** out) {
  return guarded("gn_model_create", [&] {
    gn_model*& result = output(out);
    result = new gn_model{std::make_shared<Model>()};
  });
}

gn_error* gn_model_save(const gn_model* model, const char* path) {
  return guarded("gn_model_save",
                 [&] { save_model(*required(model, "model").model, text_of(path, "path")); });
}

gn_error* gn_model_describe(const gn_model* model, char** json) {
  return guarded("gn_model_describe", [&] {
    char*& result = output(json, "json");
    const Json described = model_json(*required(model, "model").model);
    result = new_text(described.dump(-1, ' ', false, Json::error_handler_t::replace));
  });
}

size_t gn_model_entry_count(const gn_model* model) { return model ? model->model->entries().size() : 0; }
const char* gn_model_entry(const gn_model* model, size_t index) {
  return index < gn_model_entry_count(model) ? model->model->entries()[index]->name().c_str() : nullptr;
}

gn_error* gn_model_input_count(const gn_model* model, const char* entry, size_t* out) {
  return count_of("gn_model_input_count", model, entry, kInputs, out);
}
gn_error* gn_model_output_count(const gn_model* model, const char* entry, size_t* out) {
  return count_of("gn_model_output_count", model, entry, kOutputs, out);
}
gn_error* gn_model_input(const gn_model* model, const char* entry, size_t index, gn_value_info* out) {
  return describe_one("gn_model_input", model, entry, kInputs, index, out);
}
gn_error* gn_model_output(const gn_model* model, const char* entry, size_t index, gn_value_info* out) {
  return describe_one("gn_model_output", model, entry, kOutputs, index, out);
}

gn_error* gn_model_add_training(gn_model* model, const char* optimizer) {
  return guarded("gn_model_add_training", [&] {
    passes::add_training(*required(model, "model").model,
                         passes::parse_train_options(text_of(optimizer, "optimizer")));
  });
}

void gn_model_free(gn_model* model) { delete model; }

gn_error* gn_session_open(const gn_model* model, const gn_session_options* given, gn_session** out) {
  return guarded("gn_session_open", [&] {
    gn_session*& result = output(out);
    const auto options = options_of(given, sizeof(gn_session_options));
    SessionOptions wanted = session_options(options.device, options.threads);
    wanted.find_nonfinite = options.find_nonfinite != 0;
    auto made = std::make_unique<gn_session>();
    made->model = required(model, "model").model;
    made->session.emplace(made->model, wanted);
    made->gpu = gpu_named(made->session->device());
    result = made.release();
  });
}

const char* gn_session_device(const gn_session* session) {
  return session ? session->session->device().c_str() : "";
}

gn_error* gn_session_run(gn_session* session, const char* entry, const char* const* names,
                         const gn_tensor* const* tensors, size_t count, gn_tensors** out) {
  clear(out);
  const auto body = [&](Session& s) {
    gn_tensors*& result = output(out);
    result = new_tensors(s.run(text_of(entry, "entry"), inputs_of(*session, names, tensors, count)));
  };
  return with_session("gn_session_run", session, body, entry);
}

gn_error* gn_session_run_on_device(gn_session* session, const char* entry, const char* const* names,
                                   const gn_tensor* const* tensors, size_t count, gn_tensors** out) {
  if (session && session->gpu < 0) return gn_session_run(session, entry, names, tensors, count, out);
  clear(out);
  const auto body = [&](Session& s) {
    gn_tensors*& result = output(out);
    result =
        new_tensors(Inspector(s).run_on_device(text_of(entry, "entry"),
                                               inputs_of(*session, names, tensors, count), session->blocks),
                    session->gpu);
  };
  return with_session("gn_session_run_on_device", session, body, entry);
}

gn_error* gn_session_start(gn_session* session, const char* entry, const char* const* names,
                           const gn_tensor* const* tensors, size_t count) {
  const auto body = [&](Session& s) {
    s.start(text_of(entry, "entry"), inputs_of(*session, names, tensors, count));
  };
  return with_session("gn_session_start", session, body, entry);
}

gn_error* gn_session_wait(gn_session* session, gn_tensors** out) {
  clear(out);
  return with_session("gn_session_wait", session, [&](Session& s) {
    gn_tensors*& result = output(out);
    result = new_tensors(s.result());
  });
}

gn_error* gn_session_state(const gn_session* session, const char* name, gn_tensor** out) {
  clear(out);
  return with_session("gn_session_state", session, [&](Session& s) {
    gn_tensor*& result = output(out);
    result = new_tensor(s.state(text_of(name, "name")), true);
  });
}

gn_error* gn_session_set_state(gn_session* session, const char* name, const gn_tensor* value) {
  return with_session("gn_session_set_state", session, [&](Session& s) {
    s.set_state(text_of(name, "name"), required(value, "value").host());
  });
}

gn_error* gn_session_save(const gn_session* session, const char* path) {
  return with_session("gn_session_save", session, [&](Session& s) { s.save(text_of(path, "path")); });
}

gn_error* gn_session_load(gn_session* session, const char* path) {
  return with_session("gn_session_load", session, [&](Session& s) { s.load(text_of(path, "path")); });
}

gn_error* gn_session_set_seed(gn_session* session, uint64_t seed) {
  return with_session("gn_session_set_seed", session, [&](Session& s) { s.set_seed(seed); });
}

gn_error* gn_session_reset_caches(gn_session* session) {
  return with_session("gn_session_reset_caches", session,
                      [&](Session& s) { s.reset_states(StateRole::kCache); });
}

void gn_session_free(gn_session* session) { delete session; }

}  // extern "C"
