#pragma once

#include "h5/h5.hpp"
#include "model/config.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpt::test {

/// One model of the reference file (make_oracle.py).
class Oracle {
public:
  explicit Oracle(std::string model) : model_(std::move(model)), file_(H5File::open(GPT_ORACLE_FILE)) {}

  int64_t integer(const std::string& key) const { return file_.integer(model_ + "." + key); }
  double real(const std::string& key) const { return file_.real(key); }
  std::vector<float> floats(const std::string& name) const { return read<float>(name, H5Element::f32); }
  std::vector<int32_t> tokens(const std::string& name) const { return read<int32_t>(name, H5Element::u32); }

  GptConfig config() const {
    return {.layers = integer("layers"),
            .heads = integer("heads"),
            .width = integer("width"),
            .context = integer("context"),
            .vocabulary = integer("vocabulary"),
            .bias = integer("bias") != 0,
            .dropout = 0.0F};
  }

private:
  template <class T>
  std::vector<T> read(const std::string& name, H5Element element) const {
    const H5Dataset dataset = file_.open_dataset(model_ + "/" + name);
    std::vector<T> values(static_cast<size_t>(dataset.size()));
    dataset.read({0, dataset.size()}, element, values.data());
    return values;
  }

  std::string model_;
  H5File file_;
};

}  // namespace gpt::test
