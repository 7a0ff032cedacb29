// The real deque under the interleaving checker: every item comes out exactly once, and the taker sees what was written
// before it was pushed. Contract: F-17.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "interleave/interleave.h"
#include "rota/fiber/detail/deque.h"

namespace rota::fiber::detail {
namespace {

using interleave::check;
using interleave::Execution;
using interleave::Result;

using Items = Deque<std::uintptr_t>;

// What an item stands for: a plain word written before the push. Reading it unpublished is a data race.
struct Payloads {
  std::array<sync::Plain<int>, 7> written;
  std::array<int, 7> taken{};

  bool take(std::uintptr_t item) {
    if (item == 0) return false;
    ROTA_INTERLEAVE_ASSERT(written[item].get() == static_cast<int>(item));
    ++taken[item];
    return true;
  }
  void push(Items& deque, std::uintptr_t item) {
    written[item].set(static_cast<int>(item));
    deque.push(item);
  }
  // Takes what is left, then each of the first `count` items must have been taken once.
  void expect_each_once(Items& deque, std::size_t count) {
    while (take(deque.pop())) {
    }
    ROTA_INTERLEAVE_ASSERT(deque.size_hint() == 0);
    for (std::size_t item = 1; item <= count; ++item) ROTA_INTERLEAVE_ASSERT(taken[item] == 1);
  }
};

// A thief that insists: it publishes what the owner has not.
void steal_hard(Items& deque, Payloads& items) {
  if (items.take(deque.steal().item)) return;
  deque.expose();
  items.take(deque.steal().item);
}

void expect_proven(const Result& result) {
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// The owner publishes the last item and takes it back, against a thief that takes what is public.
TEST(DequeInterleave, LastPublicItem) {
  expect_proven(check({.name = "last public item"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          deque.publish();
          items.take(deque.pop());
        },
        [&] { items.take(deque.steal().item); });
    items.expect_each_once(deque, 1);
  }));
}

// A thief asks, and the owner publishes with its next push.
TEST(DequeInterleave, AskedAndPublished) {
  expect_proven(check({.name = "asked"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.push(deque, 2);
          items.take(deque.pop());
        },
        [&] {
          items.take(deque.steal().item);
          items.take(deque.steal().item);
        });
    items.expect_each_once(deque, 2);
  }));
}

// The owner pops its only private item by the short path while a thief publishes it.
TEST(DequeInterleave, ExposeAgainstPop) {
  expect_proven(check({.name = "expose against pop"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.take(deque.pop());
        },
        [&] { steal_hard(deque, items); });
    items.expect_each_once(deque, 1);
  }));
}

// The same with two items, of which the owner pops one and writes its index again: the thief gets the item that is
// there, not the one that was.
TEST(DequeInterleave, ExposeAgainstAnIndexThatIsUsedAgain) {
  expect_proven(check({.name = "index used again"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.take(deque.pop());
          items.push(deque, 2);
          if (deque.pop_if(2)) items.take(2);
        },
        [&] { steal_hard(deque, items); });
    items.expect_each_once(deque, 2);
  }));
}

TEST(DequeInterleave, ExposeAgainstTwoPops) {
  expect_proven(check({.name = "two pops"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    items.push(deque, 1);
    items.push(deque, 2);
    items.push(deque, 3);
    ex.run(
        [&] {
          items.take(deque.pop());
          items.take(deque.pop());
        },
        [&] { steal_hard(deque, items); });
    items.expect_each_once(deque, 3);
  }));
}

// Public items that the owner takes back and publishes again, against a thief that read the word before.
TEST(DequeInterleave, TakenBackAndPublishedAgain) {
  expect_proven(check({.name = "taken back"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    items.push(deque, 1);
    items.push(deque, 2);
    items.push(deque, 3);
    deque.publish();  // 1 and 2.
    ex.run(
        [&] {
          items.take(deque.pop());
          items.take(deque.pop());
          items.push(deque, 4);
          deque.publish();
        },
        [&] {
          items.take(deque.steal().item);
          items.take(deque.steal().item);
        });
    items.expect_each_once(deque, 4);
  }));
}

// The last public item leaves through the top, so that its index is not used again under a thief that has read it.
TEST(DequeInterleave, LastItemIsNotReplaced) {
  expect_proven(check({.name = "last item replaced"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    deque.publish();
    ex.run(
        [&] {
          items.take(deque.pop());
          items.push(deque, 2);
          deque.publish();
        },
        [&] { items.take(deque.steal().item); });
    items.expect_each_once(deque, 2);
  }));
}

// The same with two public items: the word is not the same again while the item at its top is another one.
TEST(DequeInterleave, ItemsAreNotReplaced) {
  expect_proven(check({.name = "items replaced"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    for (std::uintptr_t item = 1; item <= 3; ++item) items.push(deque, item);
    deque.publish();  // 1 and 2.
    ex.run(
        [&] {
          for (int i = 0; i < 3; ++i) items.take(deque.pop());
          for (std::uintptr_t item = 4; item <= 6; ++item) items.push(deque, item);
          deque.publish();
        },
        [&] { items.take(deque.steal().item); });
    items.expect_each_once(deque, 6);
  }));
}

// The FIFO end that the owner uses, against a thief, over public and private items.
TEST(DequeInterleave, TakeTop) {
  expect_proven(check({.name = "take_top"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    items.push(deque, 2);
    deque.publish();
    ex.run(
        [&] {
          items.take(deque.take_top());
          items.take(deque.take_top());
        },
        [&] { steal_hard(deque, items); });
    items.expect_each_once(deque, 2);
  }));
}

// The FIFO end takes the only item by the short path of a pop, and its index is used again, while a thief publishes.
TEST(DequeInterleave, TakeTopOfTheOnlyItem) {
  expect_proven(check({.name = "take_top, one item"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    ex.run(
        [&] {
          items.take(deque.take_top());
          items.push(deque, 2);
          items.take(deque.take_top());
        },
        [&] { steal_hard(deque, items); });
    items.expect_each_once(deque, 2);
  }));
}

// Several public items: the owner takes from the top by the same compare-exchange as a thief, oldest first.
TEST(DequeInterleave, TakeTopOfPublicItems) {
  expect_proven(check({.name = "take_top, public"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    for (std::uintptr_t item = 1; item <= 4; ++item) items.push(deque, item);
    deque.publish();  // 1 and 2.
    ex.run(
        [&] {
          std::uintptr_t before = 0;
          for (int i = 0; i < 3; ++i) {
            const std::uintptr_t item = deque.take_top();
            ROTA_INTERLEAVE_ASSERT(item > before);  // Four items, one of which the thief takes.
            before = item;
            items.take(item);
          }
        },
        [&] { items.take(deque.steal().item); });
    items.expect_each_once(deque, 4);
  }));
}

// A public and a private item: the owner gets the public one, or, if a thief was faster, the private one.
TEST(DequeInterleave, TakeTopOfAPublicAndAPrivateItem) {
  expect_proven(check({.name = "take_top, one of each"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    items.push(deque, 2);
    deque.publish();  // 1.
    ex.run(
        [&] {
          const std::uintptr_t item = deque.take_top();
          ROTA_INTERLEAVE_ASSERT(item == 1 || item == 2);
          items.take(item);
        },
        [&] {
          if (items.take(deque.steal().item)) return;
          // The owner has 1, so only 2 can be left.
          deque.expose();
          const std::uintptr_t item = deque.steal().item;
          ROTA_INTERLEAVE_ASSERT(item == 0 || item == 2);
          items.take(item);
        });
    items.expect_each_once(deque, 2);
  }));
}

// Two thieves, one of which publishes, against the owner's pop.
TEST(DequeInterleave, TwoThieves) {
  expect_proven(check({.name = "two thieves"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    items.push(deque, 2);
    ex.run([&] { items.take(deque.pop()); },
           [&] {
             deque.expose();
             items.take(deque.steal().item);
           },
           [&] { items.take(deque.steal().item); });
    items.expect_each_once(deque, 2);
  }));
}

// It grows while a thief reads the old buffer, and slots are written again after a thief has read them.
TEST(DequeInterleave, GrowsUnderAThief) {
  expect_proven(check({.name = "growing"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    items.push(deque, 2);
    deque.publish();
    ex.run(
        [&] {
          items.push(deque, 3);
          items.push(deque, 4);
        },
        [&] { items.take(deque.steal().item); });
    items.expect_each_once(deque, 4);
  }));
}

// It needs room while a thief publishes: what is public is not overwritten.
TEST(DequeInterleave, GrowsWhileItemsArePublished) {
  expect_proven(check({.name = "growing while published"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    items.push(deque, 2);
    ex.run([&] { items.push(deque, 3); }, [&] { steal_hard(deque, items); });
    items.expect_each_once(deque, 3);
  }));
}

// An open deque needs no heavy fence.
TEST(DequeInterleave, OpenDeque) {
  expect_proven(check({.name = "open"}, [](Execution& ex) {
    Items deque(2, true);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.push(deque, 2);
          items.take(deque.pop());
        },
        [&] { steal_hard(deque, items); });
    items.expect_each_once(deque, 2);
  }));
}

// Two thieves that both insist, one after the other or at the same time, against an owner that pops.
TEST(DequeInterleave, TwoThievesThatInsist) {
  expect_proven(check({.name = "two insist"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    items.push(deque, 1);
    ex.run([&] { items.take(deque.pop()); }, [&] { steal_hard(deque, items); },
           [&] {
             deque.expose();
             items.take(deque.steal().item);
           });
    items.expect_each_once(deque, 1);
  }));
}

// A thread worker that is about to sleep sees that there is an item, while the owner publishes it and takes others
// back.
TEST(DequeInterleave, SizeHintSeesAnItemThatMoves) {
  expect_proven(check({.name = "size hint, owner"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    for (std::uintptr_t item = 1; item <= 4; ++item) items.push(deque, item);
    deque.publish();  // 1 and 2.
    ex.run(
        [&] {
          items.take(deque.pop());
          items.take(deque.pop());
          items.take(deque.pop());  // Takes 2 back.
        },
        [&] { ROTA_INTERLEAVE_ASSERT(deque.size_hint() > 0); });
    items.expect_each_once(deque, 4);
  }));
  expect_proven(check({.name = "size hint, published and taken back"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    items.push(deque, 1);
    items.push(deque, 2);
    deque.publish();  // 1.
    ex.run(
        [&] {
          deque.publish();          // 2.
          items.take(deque.pop());  // Takes it back: the word is as before.
        },
        [&] { ROTA_INTERLEAVE_ASSERT(deque.size_hint() > 0); });
    items.expect_each_once(deque, 2);
  }));
  expect_proven(check({.name = "size hint, publish"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    items.push(deque, 1);
    ex.run([&] { deque.publish(); }, [&] { ROTA_INTERLEAVE_ASSERT(deque.size_hint() > 0); });
    items.expect_each_once(deque, 1);
  }));
  expect_proven(check({.name = "size hint, expose"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    items.push(deque, 1);
    ex.run([&] { ROTA_INTERLEAVE_ASSERT(deque.peek() == 1); },  // The owner does not miss it either.
           [&] { deque.expose(); }, [&] { ROTA_INTERLEAVE_ASSERT(deque.size_hint() > 0); });
    items.expect_each_once(deque, 1);
  }));
}

// An owner whose pop finds the deque empty is right: no thief took the item, and the one that publishes it has not yet.
TEST(DequeInterleave, PopMissesNothingThatIsBeingPublished) {
  expect_proven(check({.name = "pop while published"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    items.push(deque, 1);
    ex.run([&] { ROTA_INTERLEAVE_ASSERT(items.take(deque.pop())); }, [&] { deque.expose(); });
  }));
  expect_proven(check({.name = "take_top while published"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    items.push(deque, 1);
    ex.run([&] { ROTA_INTERLEAVE_ASSERT(items.take(deque.take_top())); }, [&] { deque.expose(); });
  }));
}

// Slots are written again, in the same buffer, after a thief has read them.
TEST(DequeInterleave, SlotsAreWrittenAgain) {
  expect_proven(check({.name = "slots again"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    deque.publish();
    ex.run(
        [&] {
          items.push(deque, 2);
          items.take(deque.take_top());
          items.push(deque, 3);
          deque.publish();
          items.push(deque, 4);
        },
        [&] { items.take(deque.steal().item); });
    items.expect_each_once(deque, 4);
  }));
}

// No item is out of reach: a thief alone, with an owner that does nothing, gets everything.
TEST(DequeInterleave, AThiefGetsEverything) {
  expect_proven(check({.name = "everything"}, [](Execution& ex) {
    Items deque(4);
    Payloads items;
    for (std::uintptr_t item = 1; item <= 5; ++item) items.push(deque, item);
    ex.run([&] {
      while (deque.size_hint() > 0) steal_hard(deque, items);
    });
    for (std::size_t item = 1; item <= 5; ++item) ROTA_INTERLEAVE_ASSERT(items.taken[item] == 1);
  }));
}

// The checker sees what the deque does: the version for a lone owner, used although there is a thief, is caught.
TEST(DequeInterleave, TheLoneOwnersTakeTopIsCaughtUnderAThief) {
  const Result result = check({.name = "planted: no lock"}, [](Execution& ex) {
    Items deque(2);
    Payloads items;
    items.push(deque, 1);
    ex.run([&] { items.take(deque.take_top<true>()); }, [&] { steal_hard(deque, items); });
    ROTA_INTERLEAVE_ASSERT(items.taken[1] <= 1);
  });
  EXPECT_FALSE(result.ok);
}

}  // namespace
}  // namespace rota::fiber::detail
