#include "backends/cuda/codegen/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "backends/cuda/runtime/cache_folder.h"
#include "backends/cuda/runtime/kept_file.h"
#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"
#include "schema/core/error.h"

namespace genesis::cuda {
namespace {

// NVRTC's functions, looked up once.
struct Nvrtc {
  template <class F>
  static F* find(const char* name) {
    return nvrtc().function<F*>(name);
  }
  decltype(&nvrtcGetErrorString) error = find<decltype(nvrtcGetErrorString)>("nvrtcGetErrorString");
  decltype(&nvrtcVersion) version = find<decltype(nvrtcVersion)>("nvrtcVersion");
  decltype(&nvrtcGetNumSupportedArchs) num_archs =
      find<decltype(nvrtcGetNumSupportedArchs)>("nvrtcGetNumSupportedArchs");
  decltype(&nvrtcGetSupportedArchs) archs = find<decltype(nvrtcGetSupportedArchs)>("nvrtcGetSupportedArchs");
  decltype(&nvrtcCreateProgram) create = find<decltype(nvrtcCreateProgram)>("nvrtcCreateProgram");
  decltype(&nvrtcDestroyProgram) destroy = find<decltype(nvrtcDestroyProgram)>("nvrtcDestroyProgram");
  decltype(&nvrtcCompileProgram) compile = find<decltype(nvrtcCompileProgram)>("nvrtcCompileProgram");
  decltype(&nvrtcGetProgramLogSize) log_size =
      find<decltype(nvrtcGetProgramLogSize)>("nvrtcGetProgramLogSize");
  decltype(&nvrtcGetProgramLog) log = find<decltype(nvrtcGetProgramLog)>("nvrtcGetProgramLog");
  decltype(&nvrtcGetCUBINSize) cubin_size = find<decltype(nvrtcGetCUBINSize)>("nvrtcGetCUBINSize");
  decltype(&nvrtcGetCUBIN) cubin = find<decltype(nvrtcGetCUBIN)>("nvrtcGetCUBIN");
  decltype(&nvrtcGetPTXSize) ptx_size = find<decltype(nvrtcGetPTXSize)>("nvrtcGetPTXSize");
  decltype(&nvrtcGetPTX) ptx = find<decltype(nvrtcGetPTX)>("nvrtcGetPTX");

  void check(nvrtcResult status) const {
    if (status != NVRTC_SUCCESS) fail("NVRTC failed: {}", error(status));
  }
};

const Nvrtc& api() {
  static const Nvrtc found;
  return found;
}

// Returns the newest architecture that NVRTC knows and that is not newer than `wanted`.
int known_arch(int wanted) {
  int count = 0;
  api().check(api().num_archs(&count));
  std::vector<int> archs(static_cast<size_t>(count));
  api().check(api().archs(archs.data()));
  int best = 0;
  for (int arch : archs)
    if (arch <= wanted) best = std::max(best, arch);
  if (best == 0) fail("this NVRTC makes no code for compute capability {}.{}", wanted / 10, wanted % 10);
  return best;
}

struct Target {
  int arch;
  bool exact;  // compile to machine code; otherwise to PTX, which the driver translates

  std::vector<std::string> options() const {
    // Multiplications and additions are not contracted, so that a program gives the same bits alone and fused.
    return {std::string("--gpu-architecture=") + (exact ? "sm_" : "compute_") + std::to_string(arch),
            "--std=c++17", "--fmad=false", "--device-as-default-execution-space", "--disable-warnings"};
  }
};

Target target_for(int major, int minor) {
  const int wanted = 10 * major + minor, known = known_arch(wanted);
  return {known, known == wanted};
}

class Program {
 public:
  explicit Program(const std::string& source) {
    api().check(api().create(&program_, source.c_str(), "fused.cu", 0, nullptr, nullptr));
  }
  ~Program() { api().destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string compile(const Target& target) {
    const std::vector<std::string> options = target.options();
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    if (api().compile(program_, static_cast<int>(texts.size()), texts.data()) != NVRTC_SUCCESS)
      fail("NVRTC refused a generated kernel: {}", log());
    return target.exact ? text(api().cubin_size, api().cubin) : text(api().ptx_size, api().ptx);
  }

 private:
  template <class Size, class Get>
  std::string text(Size size, Get get) {
    size_t bytes = 0;
    api().check(size(program_, &bytes));
    std::string result(bytes, '\0');
    api().check(get(program_, result.data()));
    return result;
  }
  std::string log() { return text(api().log_size, api().log); }

  nvrtcProgram program_ = nullptr;
};

std::string key_of(const std::string& source, const Target& target) {
  int major = 0, minor = 0;
  api().check(api().version(&major, &minor));
  std::string all = std::to_string(major) + "." + std::to_string(minor);
  for (const std::string& option : target.options()) all += " " + option;
  return hash_text(all + "\n" + source);
}

}  // namespace

std::string compile(const std::string& source, int major, int minor) {
  const Target target = target_for(major, minor);
  const auto folder = cache_folder();
  if (!folder) return Program(source).compile(target);
  const auto path = *folder / (key_of(source, target) + ".kernel");
  if (auto kept = read_kept(path)) return std::move(*kept);
  std::string code = Program(source).compile(target);
  keep(path, code);
  return code;
}

LoadedCode::LoadedCode(std::string code) : code_(std::move(code)) {
  check(cudaLibraryLoadData(&library_, code_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading a compiled kernel");
}

LoadedCode::~LoadedCode() { cudaLibraryUnload(library_); }

const void* LoadedCode::kernel(const char* name) const {
  cudaKernel_t found = nullptr;
  check(cudaLibraryGetKernel(&found, library_, name), "looking for a compiled kernel");
  cudaFuncAttributes attributes;  // asking loads it onto the device now, not in the middle of a capture
  check(cudaFuncGetAttributes(&attributes, found), "loading a compiled kernel");
  return found;
}

std::shared_ptr<const LoadedCode> load(const std::string& source) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const LoadedCode>> loaded;
  const Chip& chip = current_chip();
  const std::string key = key_of(source, target_for(chip.major, chip.minor));
  const auto known = [&] {
    const std::lock_guard lock(mutex);
    return loaded[key].lock();
  };
  if (auto still = known()) return still;
  const auto fresh = std::make_shared<const LoadedCode>(compile(source, chip.major, chip.minor));
  const std::lock_guard lock(mutex);
  loaded[key] = fresh;
  return fresh;
}

}  // namespace genesis::cuda
