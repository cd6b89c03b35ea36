/* A program in C that runs a model, or talks with a language model:
 *
 *   c_program run MODEL.genesis          runs the entry point "forward" on ones and prints its outputs
 *   c_program chat MODEL.genesis TEXT    prints the model's answer to a text as it is written
 *   c_program write MODEL.genesis        writes a model with one layer, trains it for 100 steps and saves it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <genesis/genesis_c.h>

/* Ends the program if there is an error. */
static void check(gn_error* error) {
  if (!error) return;
  fprintf(stderr, "%s\n", gn_error_text(error));
  gn_error_free(error);
  exit(1);
}

/* Makes a tensor of ones for an input. Sizes that the model leaves open are 2. */
static gn_tensor* ones(const gn_value_info* info) {
  int64_t sizes[GN_MAX_RANK], numel = 1;
  gn_tensor* tensor;
  float* data;
  int32_t i;
  for (i = 0; i < info->rank; ++i) numel *= sizes[i] = info->sizes[i] < 0 ? 2 : info->sizes[i];
  data = malloc((size_t)numel * sizeof(float));
  for (i = 0; i < numel; ++i) data[i] = 1;
  check(gn_tensor_copy(GN_F32, info->rank, sizes, data, (size_t)numel * sizeof(float), &tensor));
  free(data);
  return tensor;
}

static void print(const gn_tensors* outputs) {
  size_t i;
  for (i = 0; i < gn_tensors_count(outputs); ++i) {
    const gn_tensor* tensor = gn_tensors_at(outputs, i);
    const float* data = gn_tensor_data(tensor);
    printf("%s: %g, of %d bytes\n", gn_tensors_name(outputs, i), gn_tensor_bytes(tensor) ? data[0] : 0,
           (int)gn_tensor_bytes(tensor));
  }
}

static void run(const char* path) {
  gn_model* model;
  gn_session* session;
  gn_tensors* outputs;
  gn_value_info info = {0};
  gn_session_options options = {0};
  gn_tensor* input;
  check(gn_model_open(path, &model));
  options.struct_size = sizeof options;
  options.device = "cpu";
  check(gn_session_open(model, &options, &session));
  info.struct_size = sizeof info;
  check(gn_model_input(model, "forward", 0, &info));
  input = ones(&info);
  check(gn_session_run(session, "forward", &info.name, (const gn_tensor* const*)&input, 1, &outputs));
  print(outputs);
  gn_tensors_free(outputs);
  gn_tensor_free(input);
  gn_session_free(session);
  gn_model_free(model);
}

static int32_t print_piece(const char* text, size_t bytes, void* user) {
  (void)user;
  fwrite(text, 1, bytes, stdout);
  fflush(stdout);
  return 0; /* go on */
}

static void chat(const char* path, const char* text) {
  gn_lm* lm;
  gn_reply* reply;
  char messages[4096];
  snprintf(messages, sizeof messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", text);
  check(gn_lm_open(path, NULL, &lm));
  check(gn_lm_chat(lm, messages, "{\"max_tokens\": 40, \"temperature\": 0}", print_piece, NULL, &reply));
  printf("\n[%d tokens, %s]\n", (int)gn_reply_tokens(reply), gn_reply_stop_reason(reply));
  gn_reply_free(reply);
  gn_lm_free(lm);
}

/* loss = mean((x * w - 3)^2), whose weight becomes 3 for x = 1. */
static void write_model(const char* path) {
  const float zero = 0, one = 1, three = 3;
  const int64_t size = 1;
  const char* const name = "x";
  gn_model* model;
  gn_graph* graph;
  gn_session* session;
  gn_tensors* outputs;
  gn_tensor *weight, *target, *x;
  int32_t values[6], step;
  size_t made;
  check(gn_tensor_copy(GN_F32, 1, &size, &zero, sizeof zero, &weight));
  check(gn_tensor_copy(GN_F32, 1, &size, &three, sizeof three, &target));
  check(gn_tensor_view(GN_F32, 1, &size, &one, &x));
  check(gn_model_create(&model));
  check(gn_graph_create(model, "loss", 1, &graph));
  check(gn_graph_input(graph, "x", GN_F32, "[batch]", &values[0]));
  check(gn_graph_state(graph, "w", weight, 1, &values[1]));
  check(gn_graph_op(graph, "mul", NULL, values, 2, &values[2], 1, &made));
  check(gn_graph_constant(graph, "target", target, &values[3]));
  check(gn_graph_op(graph, "sub", NULL, &values[2], 2, &values[4], 1, &made));
  check(gn_graph_op(graph, "square", NULL, &values[4], 1, &values[5], 1, &made));
  check(gn_graph_op(graph, "mean", NULL, &values[5], 1, &values[0], 1, &made));
  check(gn_graph_output(graph, "loss", values[0]));
  check(gn_model_add_training(model, "sgd,lr=0.1"));
  check(gn_session_open(model, NULL, &session));
  for (step = 0; step < 100; ++step) {
    check(gn_session_run(session, "train_step", &name, (const gn_tensor* const*)&x, 1, &outputs));
    gn_tensors_free(outputs);
  }
  check(gn_session_save(session, path));
  gn_tensor_free(weight);
  check(gn_session_state(session, "w", &weight));
  printf("w = %.3f\n", *(const float*)gn_tensor_data(weight));
  gn_session_free(session);
  gn_graph_free(graph);
  gn_model_free(model);
  gn_tensor_free(weight);
  gn_tensor_free(target);
  gn_tensor_free(x);
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "run") == 0)
    run(argv[2]);
  else if (argc == 4 && strcmp(argv[1], "chat") == 0)
    chat(argv[2], argv[3]);
  else if (argc == 3 && strcmp(argv[1], "write") == 0)
    write_model(argv[2]);
  else
    return fprintf(stderr, "usage: c_program run|write MODEL, or c_program chat MODEL TEXT\n"), 2;
  return 0;
}
