#include "ckpt/json.hpp"

#include "standard_output.hpp"

#include <nlohmann/json.hpp>

namespace gpt {

void print_json(const nlohmann::json& json) {
  print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace gpt
