// The C interface of Genesis: C99, for programs in C and for bindings of other languages. docs/c-api.md is its guide.
//
// Rules that hold for every function:
//   - A function that can fail returns a gn_error, which the caller frees, or null for success. Nothing aborts, no exception
//     leaves the library, and there is no error state of a thread. If a function fails, its outputs are set to null or 0.
//   - Texts are UTF-8 and end with a zero byte. Those that a function takes are read during the call. Those that it returns as
//     `const char*` belong to the object that they were asked of; those of `char**` are freed by gn_text_free().
//   - "out" parameters give the caller a new object, which it frees with the function named after its type. Freeing null does
//     nothing. An object may be freed before others that were made of it.
//   - The structs of options begin with struct_size, which is sizeof the struct. All other fields may be zero, which means the
//     default. Null in place of options means all defaults. Later versions add fields at the end only.
//   - Different objects may be used by different threads. A session or language model that is used by two threads at a time
//     gives an error. A tensor is immutable and may be shared.
#ifndef GENESIS_C_H
#define GENESIS_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- The library ---

// Returns the version of the library: "0.1.0".
const char* gn_version(void);
// Frees a text that a function returned as `char**`. Null does nothing.
void gn_text_free(char* text);

enum { GN_LOG_DEBUG = 0, GN_LOG_INFO = 1, GN_LOG_WARNING = 2, GN_LOG_ERROR = 3 };
// Receives the messages of the library, from any thread, one call at a time. `text` is valid during the call.
typedef void (*gn_on_log)(int32_t level, const char* text, void* user);
// Passes all messages of the process at `level` and above to `on_log`; null: to stderr. Before the first call they go to
// spdlog's default logger, which writes `info` and above to the standard output.
struct gn_error* gn_set_log(gn_on_log on_log, void* user, int32_t level);

// --- Errors ---

typedef struct gn_error gn_error;
enum {
  GN_OK = 0,
  GN_ERROR =
      1,  // a file, name, shape, dtype or setting that does not fit: the text says where and what was expected
  GN_BAD_ARGUMENT = 2,   // a null pointer, a struct_size or a number that no version of this function takes
  GN_OUT_OF_MEMORY = 3,  // the host has no memory left
  GN_INTERNAL = 4        // a bug of the library
};
int32_t gn_error_code(const gn_error* error);  // GN_OK for null
// Returns what is wrong and where, what was expected, what came and what to do. "" for null.
const char* gn_error_text(const gn_error* error);
// Return the place: the entry point, the node and the input that the error is about; "" if there is none.
const char* gn_error_entry(const gn_error* error);
const char* gn_error_node(const gn_error* error);
const char* gn_error_input(const gn_error* error);
void gn_error_free(gn_error* error);

// --- Tensors ---

// The numbers are those of .genesis files.
enum {
  GN_F32 = 0,
  GN_F64 = 1,
  GN_F16 = 2,
  GN_BF16 = 3,
  GN_I8 = 4,
  GN_U8 = 5,
  GN_I16 = 6,
  GN_I32 = 7,
  GN_I64 = 8,
  GN_BOOL = 9
};
enum { GN_MAX_RANK = 8 };

// A tensor, dense and row-major: in host memory, or one of gn_tensor_from_dlpack() and gn_session_run_on_device() in that of a GPU.
typedef struct gn_tensor gn_tensor;
// Makes a tensor that reads `data` in place: the caller keeps it valid, and unchanged while it is used by a run, until the tensor
// is freed. Later runs see what was written in between.
gn_error* gn_tensor_view(int32_t dtype, int32_t rank, const int64_t* sizes, const void* data,
                         gn_tensor** out);
// Makes a tensor with a copy of `data`, of which there are `bytes` bytes. Fails if the sizes need another number.
gn_error* gn_tensor_copy(int32_t dtype, int32_t rank, const int64_t* sizes, const void* data, size_t bytes,
                         gn_tensor** out);
int32_t gn_tensor_dtype(const gn_tensor* tensor);  // -1 for null
int32_t gn_tensor_rank(const gn_tensor* tensor);   // -1 for null
const int64_t* gn_tensor_sizes(const gn_tensor* tensor);
size_t gn_tensor_bytes(const gn_tensor* tensor);
// Returns the elements on the host, never null for a tensor there, even without elements. Those of a tensor on a GPU are copied by the
// first call; null if that fails.
const void* gn_tensor_data(const gn_tensor* tensor);
int32_t gn_tensor_gpu(
    const gn_tensor* tensor);  // the GPU that has the elements, from 0; -1: the host has them
void gn_tensor_free(gn_tensor* tensor);

// DLPack 1.x, the exchange of tensors without a copy. These structs have the layout of DLTensor, DLManagedTensorVersioned and
// DLManagedTensor of dlpack.h, to which a pointer may be cast.
typedef struct gn_dl_tensor {
  void* data;
  int32_t device_type, device_id;  // 1: CPU, 2: CUDA, 3: the host's for CUDA, 13: managed by CUDA
  int32_t ndim;
  uint8_t type_code, type_bits;  // 0: integer, 1: unsigned, 2: real, 4: bfloat16, 6: bool
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;  // in elements; null: dense and row-major
  uint64_t byte_offset;
} gn_dl_tensor;
typedef struct gn_dl_managed {
  uint32_t major_version, minor_version;
  void* manager_ctx;
  void (*deleter)(struct gn_dl_managed* self);
  uint64_t flags;  // 1: read-only, 2: a copy
  gn_dl_tensor dl_tensor;
} gn_dl_managed;
typedef struct gn_dl_legacy {
  gn_dl_tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct gn_dl_legacy* self);
} gn_dl_legacy;
// Make a tensor of a foreign one and take it over: it is deleted with the last user of its bytes, or at once if there was an
// error. Dense tensors in memory that the host reads (types 1, 3 and 13) are not copied, others are. One in the memory of a GPU (type 2)
// must be dense, and what writes it must have ended or be in CUDA's default stream. Sessions of that GPU read it in place; all else
// reads a copy on the host, which is made once.
gn_error* gn_tensor_from_dlpack(gn_dl_managed* managed, gn_tensor** out);
gn_error* gn_tensor_from_dlpack_legacy(gn_dl_legacy* managed, gn_tensor** out);
// Gives a tensor away; the receiver calls managed->deleter. Results of runs may be written, other tensors are marked read-only.
gn_error* gn_tensor_to_dlpack(const gn_tensor* tensor, gn_dl_managed** out);

// Tensors by name: the outputs of a run.
typedef struct gn_tensors gn_tensors;
size_t gn_tensors_count(const gn_tensors* tensors);
// Return the name and the tensor of a position, which belong to `tensors`; null if there is none.
const char* gn_tensors_name(const gn_tensors* tensors, size_t index);
const gn_tensor* gn_tensors_at(const gn_tensors* tensors, size_t index);
const gn_tensor* gn_tensors_find(const gn_tensors* tensors, const char* name);
// Makes a handle of its own, which stays valid after gn_tensors_free().
gn_error* gn_tensors_take(const gn_tensors* tensors, size_t index, gn_tensor** out);
void gn_tensors_free(gn_tensors* tensors);

// --- Models ---

typedef struct gn_model gn_model;
// Opens a .genesis file, the newest checkpoint of a folder, or a model of another program: a folder that transformers saved, a GGUF
// file, a program of torch.export (.pt2), an ONNX model, or "hf:OWNER/NAME", which is fetched. Files are mapped: their weights take no memory of their own.
gn_error* gn_model_open(const char* path, gn_model** out);
gn_error* gn_model_save(const gn_model* model, const char* path);
// Describes a model as JSON: {"entries": {"forward": {"inputs": [{"name", "dtype", "shape"}], "outputs": [...]}},
// "states": [{"name", "dtype", "shape", "role"}], "metadata": {}, "ops": ["matmul"]}. Shapes are lists of numbers and, for sizes
// that are known when the model runs, texts.
gn_error* gn_model_describe(const gn_model* model, char** json);
size_t gn_model_entry_count(const gn_model* model);
const char* gn_model_entry(const gn_model* model, size_t index);  // null if there is none

typedef struct gn_value_info {
  size_t struct_size;  // set by the caller
  const char* name;    // belongs to the model
  int32_t dtype, rank;
  int64_t sizes[8];  // -1: known when the model runs
} gn_value_info;
// Return the number of inputs or outputs of an entry point, and one of them.
gn_error* gn_model_input_count(const gn_model* model, const char* entry, size_t* out);
gn_error* gn_model_output_count(const gn_model* model, const char* entry, size_t* out);
gn_error* gn_model_input(const gn_model* model, const char* entry, size_t index, gn_value_info* out);
gn_error* gn_model_output(const gn_model* model, const char* entry, size_t index, gn_value_info* out);
void gn_model_free(gn_model* model);

// --- Writing models ---

// Makes an empty model, whose entry points are written with gn_graph.
gn_error* gn_model_create(gn_model** out);
typedef struct gn_graph gn_graph;
// Begins an entry point. `trains` is 1 for one that trains (dropout is active), else 0. The graph keeps the model alive. Sessions
// must be opened after the last change of a model.
gn_error* gn_graph_create(gn_model* model, const char* entry, int32_t trains, gn_graph** out);
// These add to the graph and set `value` to the number of the new value. A shape is a text such as "[batch,4]".
gn_error* gn_graph_input(gn_graph* graph, const char* name, int32_t dtype, const char* shape, int32_t* value);
gn_error* gn_graph_constant(gn_graph* graph, const char* name, const gn_tensor* tensor, int32_t* value);
// Reads a state of the model. With `initial`, makes it first: a parameter if `trains` is 1, else a buffer.
gn_error* gn_graph_state(gn_graph* graph, const char* name, const gn_tensor* initial, int32_t trains,
                         int32_t* value);
// Applies an op by name (docs/ops.md). `attributes` is a JSON object; null: all defaults. Writes up to `capacity` results and sets
// `made` to their number.
gn_error* gn_graph_op(gn_graph* graph, const char* op, const char* attributes, const int32_t* inputs,
                      size_t count, int32_t* results, size_t capacity, size_t* made);
gn_error* gn_graph_output(gn_graph* graph, const char* name, int32_t value);
gn_error* gn_graph_update(gn_graph* graph, const char* state, int32_t value);
void gn_graph_free(gn_graph* graph);
// Describes all ops as JSON: [{"name", "doc", "inputs": [least, most], "attributes": {"axis": -1}}].
gn_error* gn_ops_describe(char** json);
// Opens a plugin with ops and kernels (docs/plugins.md), for the rest of the process.
gn_error* gn_load_plugin(const char* path);
// Makes the entry point "train_step" of "loss". `optimizer` is the text that genesis-run train --optimizer takes:
// "adamw,lr=1e-3,clip=1.0".
gn_error* gn_model_add_training(gn_model* model, const char* optimizer);

// --- Sessions ---

typedef struct gn_session gn_session;
typedef struct gn_session_options {
  size_t struct_size;
  const char* device;      // "cpu", "cuda", "cuda:1" or "auto"; null: "cpu"
  int32_t threads;         // 0: all cores
  int32_t find_nonfinite;  // 1: stop at the first node that makes a NaN or an infinity
} gn_session_options;
gn_error* gn_session_open(const gn_model* model, const gn_session_options* options, gn_session** out);
const char* gn_session_device(const gn_session* session);  // "cpu", "cuda", "cuda:1"
// Runs an entry point with `count` inputs. The outputs are copies.
gn_error* gn_session_run(gn_session* session, const char* entry, const char* const* names,
                         const gn_tensor* const* tensors, size_t count, gn_tensors** out);
// The same, but the outputs are copies in the memory of the session's GPU, complete and valid until they are freed: gn_tensor_to_dlpack()
// gives them away there. On a CPU it is gn_session_run(). Their memory is used again once they are freed, behind what CUDA's default
// stream has been given by then: work in other streams must have ended.
gn_error* gn_session_run_on_device(gn_session* session, const char* entry, const char* const* names,
                                   const gn_tensor* const* tensors, size_t count, gn_tensors** out);
// gn_session_start() begins a run and returns, gn_session_wait() gives its outputs. Up to two runs may be started before the first
// is waited for; their inputs must stay valid and unchanged until then. On a CPU start() does the work.
gn_error* gn_session_start(gn_session* session, const char* entry, const char* const* names,
                           const gn_tensor* const* tensors, size_t count);
gn_error* gn_session_wait(gn_session* session, gn_tensors** out);
gn_error* gn_session_state(const gn_session* session, const char* name, gn_tensor** out);
gn_error* gn_session_set_state(gn_session* session, const char* name, const gn_tensor* value);
gn_error* gn_session_save(const gn_session* session, const char* path);  // a model with the current states
gn_error* gn_session_load(gn_session* session, const char* path);        // takes the states of such a file
gn_error* gn_session_set_seed(gn_session* session, uint64_t seed);
gn_error* gn_session_reset_caches(gn_session* session);
void gn_session_free(gn_session* session);

// --- Language models ---

typedef struct gn_lm gn_lm;
typedef struct gn_lm_options {
  size_t struct_size;
  const char* device;  // the same as for a session
  int32_t threads;
  const char* tokenizer;      // a folder or file with another tokenizer; null: the model's own
  const char* chat_template;  // a file .jinja; null: the one of the tokenizer
  int64_t context;            // positions of the KV cache; 0: as many as texts need
  const char* draft;          // speculative decoding: "ngram" or a model; null: none
} gn_lm_options;
gn_error* gn_lm_open(const char* path, const gn_lm_options* options, gn_lm** out);

typedef struct gn_reply gn_reply;
// Receives each new piece of an answer, `bytes` of UTF-8 that end with a zero byte. Returns 0 to go on, another number to end.
typedef int32_t (*gn_on_text)(const char* text, size_t bytes, void* user);
// Continues a prompt. `settings` is a JSON object; null or members that it lacks: what the model's makers chose. Members:
// max_tokens, temperature, top_k, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty,
// no_repeat_ngram_size, min_tokens, seed, stop (a text or a list), ignore_eos.
gn_error* gn_lm_generate(gn_lm* lm, const char* prompt, const char* settings, gn_on_text on_text, void* user,
                         gn_reply** out);
// Answers a conversation: a JSON list of {"role", "content"}, or an object with such a list as "messages" and more that the
// template reads, such as "tools". What the cache holds of an earlier turn is not read again.
gn_error* gn_lm_chat(gn_lm* lm, const char* messages, const char* settings, gn_on_text on_text, void* user,
                     gn_reply** out);
// Returns the text that the chat template makes of a conversation, with the beginning of an answer.
gn_error* gn_lm_render(gn_lm* lm, const char* messages, char** out);
gn_error* gn_lm_encode(gn_lm* lm, const char* text, gn_tensor** out);  // tokens: i64[n]
gn_error* gn_lm_decode(gn_lm* lm, const gn_tensor* tokens, char** out);
const char* gn_reply_text(const gn_reply* reply);
const char* gn_reply_stop_reason(const gn_reply* reply);  // "max_tokens", "stop_token", "stop_string", ...
int64_t gn_reply_prompt_tokens(const gn_reply* reply);    // tokens that had to be read
int64_t gn_reply_tokens(const gn_reply* reply);           // tokens that were written
double gn_reply_seconds(const gn_reply* reply);
void gn_reply_free(gn_reply* reply);
void gn_lm_free(gn_lm* lm);

// An engine generates many texts at a time, as tokens. While it lives, the language model makes no other texts. submit() and
// cancel() are for any thread, step() and poll() for one at a time.
typedef struct gn_engine gn_engine;
typedef struct gn_engine_options {
  size_t struct_size;
  int64_t rows;       // texts at a time; 0: 8
  int64_t positions;  // tokens of a text with its prompt; 0: as many as the model can read
} gn_engine_options;
// Must be the first use of `lm`, whose cache gets this size.
gn_error* gn_engine_open(gn_lm* lm, const gn_engine_options* options, gn_engine** out);
// Adds a text that continues a prompt, i64[n] (gn_lm_encode before the engine is opened, or gn_tensor_copy). Settings are those of
// gn_lm_generate(), without stop.
gn_error* gn_engine_submit(gn_engine* engine, const gn_tensor* prompt, const char* settings, uint64_t* id);
gn_error* gn_engine_cancel(gn_engine* engine, uint64_t id);
// Chooses a token for every text that has a row; reads prompts. Sets `works` to 0 if there was nothing to do.
gn_error* gn_engine_step(gn_engine* engine, int32_t* works);
// Gives the tokens of a text since it was polled last, and 1 in `ended` for the last time; then the text is forgotten.
gn_error* gn_engine_poll(gn_engine* engine, uint64_t id, gn_tensor** tokens, int32_t* ended);
void gn_engine_free(gn_engine* engine);

// Vectors of texts, with a model that has the entry point "embed".
typedef struct gn_embedder gn_embedder;
gn_error* gn_embedder_open(const char* path, const gn_session_options* options, gn_embedder** out);
// Returns f32[count, features]. `prompt` names a prompt of the model; null: its default.
gn_error* gn_embedder_encode(gn_embedder* embedder, const char* const* texts, size_t count,
                             const char* prompt, gn_tensor** out);
void gn_embedder_free(gn_embedder* embedder);

// Tokenizers, for a program that trains on tokens of its own. The path is that of a tokenizer.json, of a folder with one, or of a model
// that brings one.
typedef struct gn_tokenizer gn_tokenizer;
gn_error* gn_tokenizer_open(const char* path, gn_tokenizer** out);
// Returns the tokens of a text, i64[n]. `special` is 1 for the tokens that the tokenizer puts around every text, else 0.
gn_error* gn_tokenizer_encode(const gn_tokenizer* tokenizer, const char* text, int32_t special,
                              gn_tensor** out);
// Returns the text of tokens, without special tokens.
gn_error* gn_tokenizer_decode(const gn_tokenizer* tokenizer, const gn_tensor* tokens, char** out);
int64_t gn_tokenizer_size(const gn_tokenizer* tokenizer);  // number of token ids; -1 for null
void gn_tokenizer_free(gn_tokenizer* tokenizer);

// --- Training jobs ---

typedef struct gn_train_step {
  size_t struct_size;  // set by the library
  int64_t step;
  double loss, evaluation_loss, grad_norm, learning_rate, seconds;  // NaN: there is none
} gn_train_step;
// Called after each step. Returns 0 to go on, another number to end soon, with the output written.
typedef int32_t (*gn_on_step)(const gn_train_step* step, void* user);
typedef struct gn_train_options {
  size_t struct_size;
  const char* model;        // a .genesis file, or a folder of checkpoints
  const char* const* data;  // files and folders, as genesis-run train --data takes them
  size_t data_count;
  const char* optimizer;   // "adamw,lr=3e-3"; null: the training that the file brings
  int64_t steps;           // 0: 100
  int64_t batch;           // 0: 8
  int64_t sequence;        // tokens of a sample; 0: 256
  uint64_t seed;           // order of the samples
  const char* output;      // the trained model; null: none
  const char* checkpoint;  // folder of checkpoints, from which training resumes; null: none
  const char* device;
  int32_t threads;
  gn_on_step on_step;  // null: none
  void* user;
} gn_train_options;
// Trains as genesis-run train does, and copies the metrics of the last step to `last` unless it is null.
gn_error* gn_train(const gn_train_options* options, gn_train_step* last);

#ifdef __cplusplus
}
#endif
#endif  // GENESIS_C_H
