#include "model/precision.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"

namespace gpt {

DType precision_named(std::string_view name) {
  for (const DType type : {DType::f32, DType::bf16})
    if (name == name_of_precision(type)) return type;
  throw Error(fmt::format("--precision {}: use fp32 or bf16", name), ExitCode::usage);
}

bool rounds_stochastically(std::string_view name, DType type) {
  if (name == "nearest") return false;
  validate(name == "stochastic", "--rounding {}: use nearest or stochastic", name);
  validate(type == DType::bf16,
           "--rounding stochastic with --precision {}: no weights are rounded there, use --precision bf16 or "
           "--rounding nearest",
           name_of_precision(type));
  return true;
}

std::string_view name_of_precision(DType type) {
  expects(type == DType::f32 || type == DType::bf16);
  return type == DType::f32 ? "fp32" : "bf16";
}

}  // namespace gpt
