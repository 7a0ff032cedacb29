// Our own program of the table. `--profile=service` after the size runs the same work metered (P-15).
#include <cstdlib>
#include <string_view>
#include <vector>

#include "rota.h"

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "redis_worker") {
    return bench::redis_worker(argv[2], argv[3], static_cast<unsigned>(std::atoi(argv[4])));
  }
  constexpr std::string_view kProfile = "--profile=";
  if (argc > 1 && std::string_view(argv[argc - 1]).starts_with(kProfile)) {
    const std::string_view name = std::string_view(argv[--argc]).substr(kProfile.size());
    if (name != "open" && name != "service") bench::fail("the profile is open or service");
    if (name == "service") bench::profile = rota::fiber::Profile::kService;
  }
  std::vector<bench::Work> works;
  for (const auto& part :
       {bench::rota_task_works(), bench::rota_waiting_works(), bench::rota_kernel_works(), bench::rota_flow_works(),
        bench::rota_ledger_works(), bench::rota_fleet_works(), bench::rota_placement_works(), bench::rota_run_works(),
        bench::rota_host_works(), bench::rota_redis_works(), bench::rota_sim_works()}) {
    works.insert(works.end(), part.begin(), part.end());
  }
  return bench::main_of(argc, argv, works);
}
