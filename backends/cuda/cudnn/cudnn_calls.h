// cuDNN's functions with every call checked, and the handle of a device.
#pragma once

#include <cudnn_graph.h>

#include <mutex>

#include "backends/cuda/cudnn/cudnn_descriptor.h"
#include "backends/cuda/runtime/libraries.h"
#include "schema/core/error.h"

namespace genesis::cuda {

struct CudnnFunctions {
  template <class F>
  static F find(const char* name) {
    return cudnn().function<F>(name);
  }
  decltype(&cudnnCreate) create = find<decltype(&cudnnCreate)>("cudnnCreate");
  decltype(&cudnnGetVersion) version = find<decltype(&cudnnGetVersion)>("cudnnGetVersion");
  decltype(&cudnnSetStream) set_stream = find<decltype(&cudnnSetStream)>("cudnnSetStream");
  decltype(&cudnnGetErrorString) error_string = find<decltype(&cudnnGetErrorString)>("cudnnGetErrorString");
  decltype(&cudnnGetLastErrorString) last_error =
      find<decltype(&cudnnGetLastErrorString)>("cudnnGetLastErrorString");
  decltype(&cudnnBackendCreateDescriptor) create_descriptor =
      find<decltype(&cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor =
      find<decltype(&cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  decltype(&cudnnBackendSetAttribute) set_attribute =
      find<decltype(&cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  decltype(&cudnnBackendGetAttribute) get_attribute =
      find<decltype(&cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  decltype(&cudnnBackendFinalize) finalize = find<decltype(&cudnnBackendFinalize)>("cudnnBackendFinalize");
  decltype(&cudnnBackendExecute) execute = find<decltype(&cudnnBackendExecute)>("cudnnBackendExecute");
};

inline const CudnnFunctions& dnn() {
  static const CudnnFunctions functions;
  return functions;
}

inline void check_dnn(cudnnStatus_t status, const char* doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char details[256] = {};
  dnn().last_error(details, sizeof details - 1);
  fail("cuDNN failed while {}: {} {}", doing, dnn().error_string(status), details);
}

inline CudnnDescriptor make_descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check_dnn(dnn().create_descriptor(type, &made), "making a descriptor");
  return CudnnDescriptor(made);
}

template <class T>
void set_attribute(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count, const T* values) {
  check_dnn(dnn().set_attribute(descriptor.get(), name, type, count, values), "describing a graph");
}
template <class T>
void set_value(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, const T& value) {
  set_attribute(descriptor, name, type, 1, &value);
}
inline void set_descriptor(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t other) {
  set_value(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other);
}
inline void finalize(const CudnnDescriptor& descriptor, const char* doing) {
  check_dnn(dnn().finalize(descriptor.get()), doing);
}

// A handle's stream is set by the thread that runs it.
inline std::mutex handles_mutex;

// Makes the handle of the current device at its first use.
cudnnHandle_t handle_of_device();

}  // namespace genesis::cuda
