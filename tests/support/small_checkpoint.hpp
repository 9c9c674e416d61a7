#pragma once

#include "comm/world.hpp"
#include "text/tokenizer.hpp"
#include "train/checkpoint.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt::test {

/// A state of a few blocks or less: the parameters and both moments.
struct SmallState {
  explicit SmallState(const GptConfig& config) : model(config), layout(config) {
    for (std::vector<float>* tensor : {&params, &m, &v}) tensor->resize(static_cast<size_t>(layout.size()));
    for (const Parameter& parameter : layout.all()) {
      for (int64_t i = parameter.offset; i < parameter.offset + parameter.size(); ++i) {
        params[static_cast<size_t>(i)] = 0.25F * static_cast<float>(i % 1021 - 510);
        m[static_cast<size_t>(i)] = -0.5F * params[static_cast<size_t>(i)];
        v[static_cast<size_t>(i)] = static_cast<float>(i % 13);
      }
    }
  }

  float& at(std::vector<float>& tensor, const std::string& parameter, int64_t element) const {
    return tensor[static_cast<size_t>(layout.find(parameter)->offset + element)];
  }

  std::vector<StateTensor> tensors() {
    return {{"params", Tensor(params.data(), DType::f32, {layout.size()})},
            {"m", Tensor(m.data(), DType::f32, {layout.size()})},
            {"v", Tensor(v.data(), DType::f32, {layout.size()})}};
  }

  CheckpointHeader header(int64_t step, int64_t branch = 0) const {
    return {.step = step,
            .last_update = step,
            .cursor = 3 * step,
            .skipped = {{4, 6}},
            .run_id = 7,
            .branch = branch,
            .parent_step = -1,
            .model = model,
            .configuration = "lr = 0.001\nsteps = 100\n",
            .tokenizer = make_byte_tokenizer()->serialize(),
            .dataset_fingerprint = 1,
            .dataset_source = "a test",
            .spikes = {},
            .comm_choice = "{\"reduction\": \"flat\"}"};
  }

  /// The file's path.
  std::string save(const std::string& folder, const CheckpointHeader& contents) {
    int argc = 0;
    char** argv = nullptr;
    const World world(argc, argv);
    save_checkpoint(folder, contents, layout, tensors(), world);
    return folder + "/" + checkpoint_name(contents.step);
  }

  GptConfig model;
  Layout layout;
  std::vector<float> params;
  std::vector<float> m;
  std::vector<float> v;
};

/// Loads everything from a file, as a start would. @throws Error
inline void load_all(const std::string& file) {
  SmallState state(read_checkpoint_header(file).model);
  load_state(file, state.layout, state.tensors());
}

}  // namespace gpt::test
