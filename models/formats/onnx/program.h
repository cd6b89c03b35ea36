// Runs an ONNX file with all of its inputs given to a run, also those whose data decide sizes, axes or branches. For each set of values
// of such inputs a Program imports the file again and compiles it, the way a session compiles a plan for each set of sizes; recent variants
// are kept. An input decides something only if an import says so (NeedsValue), and only if it is small. If the file cannot be imported with
// sizes that are open, variants have the shapes of their inputs, too.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "executor/recently_used.h"
#include "executor/session.h"
#include "models/formats/onnx/import.h"

namespace genesis::models::onnx {

// The most elements of an input whose values get variants of their own: shapes, axes, scales, counts. Data of images or texts may
// decide nothing.
inline constexpr int64_t kMaxDecidingElements = 64;

// Imports the file. Inputs that decide something take their values from `given`, as constants; they are added to `options.values`,
// which name all inputs that became constants. Throws NeedsValue if such an input is not given or has more than
// kMaxDecidingElements elements, and the errors of import_file().
std::unique_ptr<Model> import_for_values(const OnnxFile& file, const std::filesystem::path& folder,
                                         const NamedTensors& given, ImportOptions& options,
                                         MappedFiles* files = nullptr);

class Program {
 public:
  // `folder` contains the external data of the file; an empty path allows none.
  explicit Program(OnnxFile file, std::filesystem::path folder = {}, ImportOptions options = {},
                   SessionOptions session = {});
  // Reads the file. Throws Error naming the path.
  explicit Program(const std::filesystem::path& path, SessionOptions session = {});

  // Runs `forward`. Inputs and outputs have the names and types of the file (import.h). Throws the errors of import_for_values() and of
  // Session::run().
  NamedTensors run(const NamedTensors& inputs);

  // Returns the model that the inputs are run by. It has no inputs for those that decide something.
  const Model& model_for(const NamedTensors& inputs) { return variant_for(inputs)->session.model(); }
  // Returns the names of the inputs that decided something in a run so far.
  const std::set<std::string>& deciding() const { return deciding_; }
  size_t variants() const { return variants_.size(); }

 private:
  using Key = std::map<std::string, std::string>;  // the type and the bytes of each deciding input
  struct Variant {
    std::set<std::string> constants;
    MappedFiles files;
    std::map<std::string, std::string> metadata;  // the model's: it names the outputs that have a length
    Session session;
  };
  Key key_of(const NamedTensors& inputs) const;
  ImportOptions options_for(const NamedTensors& inputs) const;
  std::unique_ptr<Model> import_for(const NamedTensors& inputs, ImportOptions& options, MappedFiles& files);
  std::shared_ptr<Variant> variant_for(const NamedTensors& inputs);

  OnnxFile file_;
  std::filesystem::path folder_;
  ImportOptions options_;
  SessionOptions session_options_;
  std::set<std::string> deciding_;
  bool fixes_shapes_ = false;
  RecentlyUsed<Key, Variant> variants_;
};

}  // namespace genesis::models::onnx
