#include "train/comm_choice.hpp"

#include "comm/every_comm.hpp"
#include "comm/trainee.hpp"

#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace gpt {

TEST_CASE("all ranks choose alike, and a resumed run takes the choice over without measuring") {
  // Where ranks share their cores unevenly, they have devices of different names.
  const auto device = make_cpu_device(1 + test::make_world("")->rank() % 2);
  for (const std::string& layout : test::layouts_for(test::make_world("")->size())) {
    const auto world = test::make_world(layout);
    TrainOptions options;
    options.reduction = options.inter = "auto";
    options.model = test::Trainee::config();
    options.bucket_mb = 0.02;
    options.zero = world->nodes() > 1 ? "1" : "0";
    std::vector<std::string> said;
    const auto say = [&](const std::string& line) { said.push_back(line); };
    const auto session = make_mpi_session(*world);
    const CommChoice choice = choose_comm(*world, *session, *device, options, "", say);
    const std::string text = to_text(choice);
    CHECK(test::same_everywhere(text.data(), text.size()));
    CHECK(said.size() == (world->size() > 1 ? 1 : 0));

    said.clear();
    CHECK(choose_comm(*world, *session, *device, options, text, say) == choice);
    CHECK(said.empty());

    options.bucket_mb = 7;
    choose_comm(*world, *session, *device, options, text, say);
    REQUIRE_FALSE(said.empty());
    // Measured anew, the choice may be another one as well, and the notice goes on.
    CHECK(said.back().find("may differ from the resumed run's: bucket-mb 7 instead of 0.02") !=
          std::string::npos);
  }
}

}  // namespace gpt
