#pragma once

#include "base/error.hpp"

#include <optional>
#include <string>
#include <utility>

namespace gpt {

/// An error that every rank of the job holds: no rank waits for another because of it.
class SharedError : public Error {
public:
  /// @param rank  that had it and told the others; nothing: it is of all of them alike
  explicit SharedError(std::string message, ExitCode code = ExitCode::failed, std::optional<int> rank = {})
      : Error(std::move(message), code), rank_(rank) {}

  std::optional<int> rank() const { return rank_; }

private:
  std::optional<int> rank_;
};

}  // namespace gpt
