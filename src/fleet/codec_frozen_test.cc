// The bytes of one of each command and event. They are in logs that are kept for years: if a line here changes, so must
// the format number of the log (record.h), and a log of the old format must be read or refused by name.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fleet/codec.h"
#include "model/any_value_test.h"

namespace rota::fleet {
namespace {

// Gives each field a value of its own: numbers count up in steps of 50 (so that some take two bytes), texts are their
// number, lists have one element, bools are true, enums are their second.
class Filler {
 public:
  template <class T>
  void fill(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(1);
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      value = -(number_ += 50);
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(number_ += 50);
    } else if constexpr (model::detail::is_id<T>) {
      value = T(static_cast<typename T::rep>(number_ += 50));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = std::to_string(number_ += 50);
    } else if constexpr (model::detail::is_vector<T>) {
      fill(value.emplace_back());
    } else if constexpr (model::detail::is_optional<T>) {
      fill(value.emplace());
    } else {
      T::fields(value, [this](std::string_view, auto& member) { this->fill(member); });
    }
  }

 private:
  int number_ = 0;
};

template <class Variant, std::size_t... I>
std::vector<std::string> one_of_each(std::index_sequence<I...>) {
  std::vector<std::string> lines;
  const auto add = [&lines]<std::size_t Index>(std::integral_constant<std::size_t, Index>) {
    std::variant_alternative_t<Index, Variant> value;
    Filler().fill(value);
    lines.push_back(std::string(value.kName) + ' ' +
                    model::testing_support::hex(model::testing_support::bytes_of(Variant(value))));
  };
  (add(std::integral_constant<std::size_t, I>()), ...);
  return lines;
}

template <class Variant>
std::vector<std::string> one_of_each() {
  return one_of_each<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());
}

// B-1: the same log, the same bytes, on any machine and in any later version.
TEST(CodecFrozenTest, Commands) {
  const std::vector<std::string> frozen = {
      "SetPolicy "
      "00010163c701ab028f0301f303d7040101bb0501019f060101018307e707cb08af09930af70adb0bbf0ca30d870eeb0e010431303030b310"
      "019711fb11df12c313a7148b15",
      "Tick 01",
      "RegisterWorker "
      "02023530c701ab020103323030f3030103333030bb05033430308307e7070103353530010336303003363530010337303001033735300103"
      "383030a30d8407",
      "Heartbeats 0301023530",
      "DrainWorker 04023530",
      "WorkerLost 0502353003313030",
      "SetWorkerEnabled 060235300101",
      "ReportCaches 070235300103313030",
      "SubmitWorkflow 0802353003313030033135308f0301033235300103333030010333353001033430300334353003353030cb08af09930af"
      "70adb0b01bf0c010103383530033930300339353004313030300431303530971101010431313530010431323030043132353001010431333"
      "0300104313335300431343030043134353001b7179b18010431363030e319c71a04313735308f1c043138353001043139303001043139353"
      "004323030308320e720cb21af22932304323330300104323335300101010432343030a326010432353030eb2701a814010432363530972a0"
      "101fb2a01f015010432383530010104323930300432393530010433303030010433303530019c189b31010433323030e332",
      "Control 09013264",
      "SetPriority 0a3264ab02",
      "SetQuota 0b023530c701ab028f030103323530d704bb059f06",
      "ReportEnded 0c3264010101010331353003323030f303d704bb059f06033435300103353030010335353003363030930a01",
      "ReportCheckpoint 0d326403313530",
      "ReportUndeliverable 0e3264",
      "ForgetWorkflow 0f32",
      "SetSchedule 10023530033130300331353001010332303003323530d7040103333530010334303001033435300103353030033535300336"
      "3030930af70adb0bbf0ca30d01870e0101033935300431303030043130353004313130300431313530df1201010431323530010431333030"
      "0431333530010104313430300104313435300431353030043135353001ff18e319010431373030ab1b8f1c0431383530d71d043139353001"
      "04323030300104323035300432313030cb21af229323f723db2404323430300104323435300101010432353030eb27010432363030b32901"
      "8c15010432373530df2b0101c32c01d416010432393530010104333030300433303530010433313030010433313530018019e33201",
      "ChangeSchedule 1102353001",
  };
  EXPECT_EQ(one_of_each<Command>(), frozen);
}

TEST(CodecFrozenTest, Events) {
  const std::vector<std::string> frozen = {
      "PolicyChanged 00",
      "WorkerRegistered 0132",
      "WorkersSeen 020132",
      "WorkerChanged 033201",
      "CachesReported 0432",
      "WorkflowAccepted 053201",
      "PlacementWarned 06326403313530c801",
      "TaskReadied 0732",
      "TaskSkipped 0832",
      "TaskAssigned 0932649601c8010101fa01ac020101de029003c203e707cb08af09930af70adb0bbf0ca30d870e",
      "TaskStarted 0a3264",
      "TaskSucceeded 0b3264",
      "TaskFailed 0c320103313030",
      "TaskRequeued 0d3201c701ab02",
      "TaskCancelled 0e320164",
      "TaskPaused 0f32",
      "TaskResumed 1032",
      "StopRequested 11320164",
      "CheckpointSaved 1232",
      "PriorityChanged 13",
      "QuotaChanged 14",
      "BindingDropped 153203313030",
      "WorkflowEnded 163201",
      "WorkflowForgotten 1732",
      "ElasticPolled 18",
      "RoomReserved 193264",
      "RecallRequested 1a3264",
      "WorkflowStopped 1b320164",
      "StageExpanded 1c32640103313530",
      "ScheduleSet 1d",
      "ScheduleChanged 1e",
      "ScheduleFired 1f0132",
      "StageCollapsed 203264",
  };
  EXPECT_EQ(one_of_each<Event>(), frozen);
}

}  // namespace
}  // namespace rota::fleet
