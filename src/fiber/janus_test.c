/* Contract: F-30. A C program that uses all of rota/janus.h, for good and with bad arguments. It passes by returning 0;
 * c_abi_test.cc checks that no function of the header is missing here. */
#define JANUS_SOURCE_NAMES
#include "rota/janus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      char why[256] = "";                                                                  \
      janus_last_error(why, sizeof(why));                                                  \
      printf("janus_test.c:%d: not so: %s (last error: %s)\n", __LINE__, #condition, why); \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

static void* number(intptr_t n) { return (void*)n; }
static intptr_t value_of(void* p) { return (intptr_t)p; }
static void* function(JanusFunction f) { return (void*)f; }

static int mentions(const char* word) {
  char text[256];
  const size_t length = janus_last_error(text, sizeof(text));
  return length > 0 && strstr(text, word) != NULL;
}

/* ------------------------------------------------------------------------------------------------ tasks and nurseries
 */

static void* doubled(void* argument) { return number(2 * value_of(argument)); }

static void* nothing(void* argument) {
  (void)argument;
  return NULL;
}

/* Runs until it is cancelled. */
static void* patient(void* argument) {
  (void)argument;
  int code;
  while ((code = janus_scheduler_yield()) == JANUS_OK) {
  }
  EXPECT(code == JANUS_CANCELLED);
  int cancelled = 0;
  EXPECT(janus_task_is_cancelled(&cancelled) == JANUS_OK && cancelled == 1);
  return number(1);
}

/* The same, asleep: a virtual clock advances only when nothing can run. */
static void* sleeper(void* argument) {
  (void)argument;
  int code;
  while ((code = janus_sleep(100000)) == JANUS_OK) {
  }
  EXPECT(code == JANUS_CANCELLED);
  return NULL;
}

static void* failing(void* argument) {
  (void)argument;
  EXPECT(janus_task_fail(JANUS_OK, "no") == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_task_fail(77777, "no") == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_task_fail(JANUS_QUEUE_FULL, "the bucket is full") == JANUS_OK);
  return NULL;
}

static int g_ran = 0;
static void* counts(void* argument) {
  (void)argument;
  ++g_ran; /* One worker. */
  return NULL;
}

static void* spawns_into(void* argument) {
  JanusNursery nursery = *(JanusNursery*)argument;
  EXPECT(janus_nursery_spawn(nursery, function(counts), NULL, NULL, NULL) == JANUS_OK);
  EXPECT(janus_nursery_close(nursery) == JANUS_FAILED_PRECONDITION); /* Not the one who opened it. */
  return NULL;
}

static void* leaves_open(void* argument) {
  JanusNursery nursery = 0;
  EXPECT(janus_nursery_open(NULL, &nursery) == JANUS_OK);
  EXPECT(janus_nursery_spawn(nursery, function(patient), NULL, NULL, NULL) == JANUS_OK);
  *(JanusNursery*)argument = nursery;
  return number(9);
}

static void* tasks(void* argument) {
  EXPECT(value_of(argument) == 7);
  JanusTask task = 0;
  EXPECT(janus_scheduler_spawn(function(doubled), NULL) == JANUS_NURSERY_NOT_ACTIVE);
  EXPECT(janus_op_task_create(function(doubled), NULL, NULL, &task) == JANUS_NURSERY_NOT_ACTIVE && task == 0);

  JanusNursery nursery = 0;
  EXPECT(janus_nursery_open(NULL, &nursery) == JANUS_OK && nursery != 0);
  EXPECT(janus_nursery_spawn(nursery, function(doubled), number(21), NULL, &task) == JANUS_OK && task != 0);
  void* result = NULL;
  int joined = 0;
  EXPECT(janus_task_join(task, &result, &joined) == JANUS_OK && joined == 1 && value_of(result) == 42);
  EXPECT(janus_task_join(task, &result, &joined) == JANUS_NOT_FOUND && joined == 0 && result == NULL);
  EXPECT(janus_task_cancel(task) == JANUS_NOT_FOUND);

  /* The opcodes do the same in the innermost nursery. */
  EXPECT(janus_op_task_create(function(doubled), number(4), NULL, &task) == JANUS_OK);
  EXPECT(janus_op_task_join(task, &result) == JANUS_OK && value_of(result) == 8);
  EXPECT(janus_op_yield() == JANUS_OK);
  EXPECT(janus_op_budget_check() == JANUS_OK);
  EXPECT(janus_op_budget_decrement(1000) == JANUS_OK); /* Nothing is metered here. */

  g_ran = 0;
  EXPECT(janus_scheduler_spawn(function(counts), NULL) == JANUS_OK);
  EXPECT(janus_nursery_spawn(nursery, function(spawns_into), &nursery, NULL, &task) == JANUS_OK);
  EXPECT(janus_task_join(task, NULL, NULL) == JANUS_OK);

  int done = 1;
  EXPECT(janus_nursery_spawn(nursery, function(patient), NULL, NULL, &task) == JANUS_OK);
  EXPECT(janus_task_is_done(task, &done) == JANUS_OK && done == 0);
  EXPECT(janus_task_cancel(task) == JANUS_OK);
  EXPECT(janus_task_join(task, &result, NULL) == JANUS_CANCELLED && result == NULL);

  JanusTask released = 0;
  EXPECT(janus_nursery_spawn(nursery, function(nothing), NULL, NULL, &released) == JANUS_OK);
  EXPECT(janus_task_release(released) == JANUS_OK);
  EXPECT(janus_task_release(released) == JANUS_NOT_FOUND);
  EXPECT(janus_task_is_done(released, &done) == JANUS_NOT_FOUND);

  /* Nested, the innermost first. */
  JanusNursery inner = 0;
  EXPECT(janus_nursery_open(NULL, &inner) == JANUS_OK);
  EXPECT(janus_nursery_close(nursery) == JANUS_FAILED_PRECONDITION && mentions("innermost"));
  EXPECT(janus_nursery_spawn(inner, function(patient), NULL, NULL, NULL) == JANUS_OK);
  EXPECT(janus_nursery_cancel(inner) == JANUS_OK);
  EXPECT(janus_nursery_close(inner) == JANUS_CANCELLED);
  EXPECT(janus_nursery_close(inner) == JANUS_NOT_FOUND);
  EXPECT(janus_nursery_close(nursery) == JANUS_OK);
  EXPECT(g_ran == 2);
  EXPECT(janus_nursery_spawn(nursery, function(nothing), NULL, NULL, NULL) == JANUS_NOT_FOUND);

  /* A failure is the nursery's as well. */
  EXPECT(janus_nursery_open(NULL, &nursery) == JANUS_OK);
  EXPECT(janus_nursery_spawn(nursery, function(failing), NULL, NULL, &task) == JANUS_OK);
  EXPECT(janus_task_join(task, NULL, &joined) == JANUS_QUEUE_FULL || joined == 0);
  EXPECT(janus_nursery_close(nursery) == JANUS_QUEUE_FULL && mentions("the bucket is full"));

  /* A deadline; on a busy machine it may be over before the spawn. */
  JanusNurseryOptions options = {NULL, NULL, JANUS_EXHAUSTED_DEFAULT, 20000000};
  EXPECT(janus_nursery_open(&options, &nursery) == JANUS_OK);
  const int spawned = janus_nursery_spawn(nursery, function(sleeper), NULL, NULL, NULL);
  EXPECT(spawned == JANUS_OK || spawned == JANUS_NURSERY_NOT_ACTIVE);
  EXPECT(janus_nursery_close(nursery) == JANUS_DEADLINE_EXCEEDED);

  /* What a task leaves open is closed for it. */
  JanusNursery left = 0;
  EXPECT(janus_nursery_open(NULL, &nursery) == JANUS_OK);
  EXPECT(janus_nursery_spawn(nursery, function(leaves_open), &left, NULL, &task) == JANUS_OK);
  EXPECT(janus_task_join(task, &result, NULL) == JANUS_OK && value_of(result) == 9);
  EXPECT(left != 0 && janus_nursery_close(left) == JANUS_NOT_FOUND);
  EXPECT(janus_nursery_close(nursery) == JANUS_OK);

  EXPECT(janus_sleep(1000) == JANUS_OK);
  return number(11);
}

/* ------------------------------------------------------------------------------------------------------------ budgets
 */

static void* spender(void* argument) {
  (void)argument;
  EXPECT(janus_op_budget_check() == JANUS_OK);
  for (int i = 0; i < 150; ++i) {
    const int code = janus_op_budget_decrement(1);
    if (code != JANUS_OK) {
      EXPECT(code == JANUS_BUDGET_EXHAUSTED);
      EXPECT(janus_op_budget_check() != JANUS_OK);
      return number(i);
    }
  }
  return number(150);
}

static void* budgets(void* argument) {
  (void)argument;
  const Budget before = janus_budget_get_current();
  EXPECT(before.ops > 1000);
  EXPECT(janus_op_budget_decrement(100) == JANUS_OK);
  EXPECT(janus_budget_get_current().ops == before.ops - 100);
  const Budget more = {50, 0, 0, 0, 0};
  EXPECT(janus_budget_recharge(more) == JANUS_OK);
  EXPECT(janus_budget_get_current().ops == before.ops - 50);

  /* Cancelled when it has run out. */
  const Budget small = {100, 0, 0, 0, 0};
  JanusNurseryOptions options = {NULL, NULL, JANUS_EXHAUSTED_CANCEL, JANUS_FOREVER};
  JanusNursery nursery = 0;
  JanusTask task = 0;
  EXPECT(janus_nursery_open(&options, &nursery) == JANUS_OK);
  EXPECT(janus_nursery_spawn(nursery, function(spender), NULL, &small, &task) == JANUS_OK);
  EXPECT(janus_task_join(task, NULL, NULL) == JANUS_BUDGET_EXHAUSTED);
  EXPECT(janus_nursery_close(nursery) == JANUS_OK);

  /* Waits, and is recharged; from a pool of the nursery's own. */
  const Budget pool = {10000, 0, 0, 0, 0};
  const Budget child = {100, 0, 0, 0, 0};
  options.pool = &pool;
  options.default_child = &child;
  options.on_exhausted = JANUS_EXHAUSTED_WAIT;
  EXPECT(janus_nursery_open(&options, &nursery) == JANUS_OK);
  EXPECT(janus_nursery_spawn(nursery, function(spender), NULL, NULL, &task) == JANUS_OK);
  const Budget rest = {100, 0, 0, 0, 0};
  int code;
  while ((code = janus_nursery_recharge(nursery, task, rest)) == JANUS_FAILED_PRECONDITION) {
    EXPECT(janus_op_yield() == JANUS_OK);
  }
  EXPECT(code == JANUS_OK);
  void* result = NULL;
  EXPECT(janus_task_join(task, &result, NULL) == JANUS_OK && value_of(result) == 150);
  EXPECT(janus_nursery_close(nursery) == JANUS_OK);
  return NULL;
}

/* -------------------------------------------------------------------------------------------------- channels and
 * select */

struct Pair {
  JanusChannel in, out;
};

static void* squares(void* argument) {
  struct Pair* pair = argument;
  void* value = NULL;
  while (janus_channel_receive(pair->in, &value, JANUS_FOREVER) == JANUS_OK) {
    EXPECT(janus_channel_send(pair->out, number(value_of(value) * value_of(value)), JANUS_FOREVER) == JANUS_OK);
  }
  EXPECT(janus_channel_close(pair->out) == JANUS_OK);
  return NULL;
}

static void* channels(void* argument) {
  (void)argument;
  struct Pair pair = {0, 0};
  EXPECT(janus_channel_create(0, &pair.in) == JANUS_OK);
  EXPECT(janus_channel_create(3, &pair.out) == JANUS_OK);
  void* value = NULL;
  EXPECT(janus_channel_receive(pair.out, &value, 0) == JANUS_WOULD_BLOCK);
  EXPECT(janus_channel_receive(pair.out, &value, 1000) == JANUS_TIMEOUT);
  EXPECT(janus_channel_send(pair.in, NULL, 0) == JANUS_WOULD_BLOCK);
  EXPECT(janus_channel_send(pair.in, NULL, 1000) == JANUS_TIMEOUT);
  EXPECT(janus_channel_send(pair.out, number(1), 0) == JANUS_OK);
  size_t size = 0;
  EXPECT(janus_channel_size(pair.out, &size) == JANUS_OK && size == 1);
  EXPECT(janus_channel_receive(pair.out, &value, 0) == JANUS_OK && value_of(value) == 1);

  JanusNursery nursery = 0;
  EXPECT(janus_nursery_open(NULL, &nursery) == JANUS_OK);
  EXPECT(janus_nursery_spawn(nursery, function(squares), &pair, NULL, NULL) == JANUS_OK);
  /* Sends and receives as either can happen: each value comes back squared, in order. */
  intptr_t next = 1, back = 1;
  while (back <= 20) {
    JanusSelectCase cases[2] = {{pair.out, 0, NULL, -1}, {pair.in, 1, number(next), -1}};
    size_t chosen = 99;
    EXPECT(janus_select(cases, next <= 20 ? 2 : 1, JANUS_FOREVER, &chosen) == JANUS_OK);
    EXPECT(chosen < 2 && cases[chosen].status == JANUS_OK);
    if (chosen == 1) {
      ++next;
    } else {
      EXPECT(value_of(cases[0].value) == back * back);
      ++back;
    }
  }
  EXPECT(janus_channel_close(pair.in) == JANUS_OK);
  EXPECT(janus_channel_close(pair.in) == JANUS_OK);
  EXPECT(janus_nursery_close(nursery) == JANUS_OK);

  JanusSelectCase closed = {pair.out, 0, number(5), -1};
  size_t chosen = 99;
  EXPECT(janus_select(&closed, 1, JANUS_FOREVER, &chosen) == JANUS_OK && chosen == 0);
  EXPECT(closed.status == JANUS_CLOSED && closed.value == NULL);
  EXPECT(janus_channel_send(pair.in, NULL, JANUS_FOREVER) == JANUS_CLOSED);
  EXPECT(janus_channel_receive(pair.out, &value, JANUS_FOREVER) == JANUS_CLOSED);

  JanusChannel quiet = 0;
  EXPECT(janus_channel_create(JANUS_UNBOUNDED, &quiet) == JANUS_OK);
  JanusSelectCase waits = {quiet, 0, NULL, -1};
  EXPECT(janus_select(&waits, 1, 0, &chosen) == JANUS_WOULD_BLOCK);
  EXPECT(janus_select(&waits, 1, 1000, &chosen) == JANUS_TIMEOUT);
  EXPECT(janus_channel_release(quiet) == JANUS_OK);
  EXPECT(janus_select(&waits, 1, 0, &chosen) == JANUS_NOT_FOUND);
  EXPECT(janus_select(NULL, 1, 0, &chosen) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_select(&waits, 0, 0, &chosen) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_select(&waits, JANUS_SELECT_MAX + 1, 0, &chosen) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_channel_release(pair.in) == JANUS_OK && janus_channel_release(pair.out) == JANUS_OK);
  return NULL;
}

/* ------------------------------------------------------------------------------------------------------------- tokens
 */

static void add_one(void* counter) { ++*(int*)counter; }

static void* tokens(void* argument) {
  (void)argument;
  JanusToken parent = 0, child = 0, mine = 0;
  int calls = 0, taken_back = 0, reason = -1;
  uint64_t id = 0;
  EXPECT(janus_token_create(&parent) == JANUS_OK && janus_token_create(&child) == JANUS_OK);
  EXPECT(janus_token_link(child, parent) == JANUS_OK);
  EXPECT(janus_token_on_cancel(child, add_one, &calls, NULL) == JANUS_OK);
  EXPECT(janus_token_on_cancel(child, add_one, &taken_back, &id) == JANUS_OK);
  EXPECT(janus_token_off_cancel(child, id) == JANUS_OK);
  EXPECT(janus_token_off_cancel(child, id) == JANUS_NOT_FOUND);
  EXPECT(janus_token_reason(child, &reason) == JANUS_OK && reason == JANUS_REASON_NONE);
  EXPECT(janus_token_cancel(parent) == JANUS_OK && janus_token_cancel(parent) == JANUS_OK);
  EXPECT(janus_token_reason(parent, &reason) == JANUS_OK && reason == JANUS_REASON_EXPLICIT);
  EXPECT(janus_token_reason(child, &reason) == JANUS_OK && reason == JANUS_REASON_PARENT);
  EXPECT(calls == 1 && taken_back == 0);
  EXPECT(janus_token_on_cancel(child, add_one, &calls, &id) == JANUS_OK && calls == 2);
  EXPECT(janus_token_release(parent) == JANUS_OK && janus_token_release(child) == JANUS_OK);
  EXPECT(janus_token_cancel(parent) == JANUS_NOT_FOUND);
  EXPECT(janus_token_current(&mine) == JANUS_OK);
  EXPECT(janus_token_reason(mine, &reason) == JANUS_OK && reason == JANUS_REASON_NONE);
  EXPECT(janus_token_release(mine) == JANUS_OK);
  return NULL;
}

/* ------------------------------------------------------------------------------------------------------ bad arguments
 */

static void* bad_arguments(void* scheduler) {
  void* p = NULL;
  int n = 0;
  size_t size = 0;
  uint64_t handle = 0;
  const uint64_t dead[] = {0, 1, 0x123456789abcdef0U, UINT64_MAX};
  const Budget budget = {1, 1, 1, 1, 1};
  for (size_t i = 0; i < sizeof(dead) / sizeof(dead[0]); ++i) {
    const uint64_t d = dead[i];
    EXPECT(janus_task_join(d, &p, &n) == JANUS_NOT_FOUND && mentions("stale"));
    EXPECT(janus_op_task_join(d, &p) == JANUS_NOT_FOUND);
    EXPECT(janus_task_release(d) == JANUS_NOT_FOUND);
    EXPECT(janus_task_cancel(d) == JANUS_NOT_FOUND);
    EXPECT(janus_task_is_done(d, &n) == JANUS_NOT_FOUND);
    EXPECT(janus_nursery_spawn(d, function(nothing), NULL, NULL, &handle) == JANUS_NOT_FOUND);
    EXPECT(janus_nursery_recharge(d, d, budget) == JANUS_NOT_FOUND);
    EXPECT(janus_nursery_cancel(d) == JANUS_NOT_FOUND);
    EXPECT(janus_nursery_close(d) == JANUS_NOT_FOUND);
    EXPECT(janus_channel_release(d) == JANUS_NOT_FOUND);
    EXPECT(janus_channel_send(d, NULL, 0) == JANUS_NOT_FOUND);
    EXPECT(janus_channel_receive(d, &p, 0) == JANUS_NOT_FOUND);
    EXPECT(janus_channel_close(d) == JANUS_NOT_FOUND);
    EXPECT(janus_channel_size(d, &size) == JANUS_NOT_FOUND);
    EXPECT(janus_token_release(d) == JANUS_NOT_FOUND);
    EXPECT(janus_token_cancel(d) == JANUS_NOT_FOUND);
    EXPECT(janus_token_reason(d, &n) == JANUS_NOT_FOUND);
    EXPECT(janus_token_link(d, d) == JANUS_NOT_FOUND);
    EXPECT(janus_token_on_cancel(d, add_one, &n, NULL) == JANUS_NOT_FOUND);
    EXPECT(janus_token_off_cancel(d, 1) == JANUS_NOT_FOUND);
    EXPECT(janus_scheduler_cancel((void*)(uintptr_t)d) == JANUS_NOT_FOUND);
    EXPECT(janus_scheduler_spawn_on((void*)(uintptr_t)d, function(nothing), NULL, NULL) == JANUS_NOT_FOUND);
  }
  JanusNursery nursery = 0;
  JanusChannel channel = 0;
  JanusToken token = 0;
  EXPECT(janus_nursery_open(NULL, NULL) == JANUS_INVALID_ARGUMENT);
  JanusNurseryOptions odd = {NULL, NULL, 99, JANUS_FOREVER};
  EXPECT(janus_nursery_open(&odd, &nursery) == JANUS_INVALID_ARGUMENT && nursery == 0);
  EXPECT(janus_nursery_open(NULL, &nursery) == JANUS_OK);
  EXPECT(janus_nursery_spawn(nursery, NULL, NULL, NULL, NULL) == JANUS_INVALID_ARGUMENT && mentions("func"));
  EXPECT(janus_op_task_create(NULL, NULL, NULL, &handle) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_op_task_create(function(nothing), NULL, NULL, NULL) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_scheduler_spawn(NULL, NULL) == JANUS_INVALID_ARGUMENT);
  /* A handle of another kind. */
  EXPECT(janus_channel_close(nursery) == JANUS_NOT_FOUND && janus_task_cancel(nursery) == JANUS_NOT_FOUND);
  EXPECT(janus_nursery_close(nursery) == JANUS_OK);
  EXPECT(janus_channel_create(1, NULL) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_channel_create(1, &channel) == JANUS_OK);
  EXPECT(janus_channel_send(channel, NULL, -2) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_channel_receive(channel, NULL, 0) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_channel_size(channel, NULL) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_channel_release(channel) == JANUS_OK);
  EXPECT(janus_token_create(NULL) == JANUS_INVALID_ARGUMENT && janus_token_current(NULL) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_token_create(&token) == JANUS_OK);
  EXPECT(janus_token_reason(token, NULL) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_token_on_cancel(token, NULL, NULL, NULL) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_token_release(token) == JANUS_OK);
  EXPECT(janus_task_is_done(0, NULL) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_task_is_cancelled(NULL) == JANUS_INVALID_ARGUMENT);
  EXPECT(janus_sleep(-1) == JANUS_INVALID_ARGUMENT);
  /* What only a thread outside may. */
  EXPECT(janus_scheduler_run(scheduler, function(nothing), NULL, NULL) == JANUS_FAILED_PRECONDITION);
  janus_scheduler_shutdown(scheduler);
  EXPECT(mentions("from outside"));
  return NULL;
}

static void outside(void) {
  JanusNursery nursery = 0;
  JanusToken token = 0;
  JanusChannel channel = 0;
  int cancelled = 1;
  void* value = NULL;
  size_t chosen = 0;
  EXPECT(janus_nursery_open(NULL, &nursery) == JANUS_OUTSIDE_RUNTIME);
  EXPECT(janus_token_current(&token) == JANUS_OUTSIDE_RUNTIME);
  EXPECT(janus_task_is_cancelled(&cancelled) == JANUS_OK && cancelled == 0);
  EXPECT(janus_task_fail(JANUS_INTERNAL, NULL) == JANUS_FAILED_PRECONDITION);
  EXPECT(janus_scheduler_yield() == JANUS_OK && janus_op_yield() == JANUS_OK);
  EXPECT(janus_op_budget_check() == JANUS_OK && janus_op_budget_decrement(5) == JANUS_OK);
  EXPECT(janus_budget_get_current().ops == UINT32_MAX);
  EXPECT(janus_sleep(1) == JANUS_OK);
  /* Without waiting a thread may use a channel; it may not wait. */
  EXPECT(janus_channel_create(1, &channel) == JANUS_OK);
  EXPECT(janus_channel_send(channel, number(3), 0) == JANUS_OK);
  EXPECT(janus_channel_send(channel, number(4), JANUS_FOREVER) == JANUS_OUTSIDE_RUNTIME);
  EXPECT(janus_channel_receive(channel, &value, 0) == JANUS_OK && value_of(value) == 3);
  JanusSelectCase waits = {channel, 0, NULL, -1};
  EXPECT(janus_select(&waits, 1, JANUS_FOREVER, &chosen) == JANUS_OUTSIDE_RUNTIME);
  EXPECT(janus_channel_release(channel) == JANUS_OK);
}

static void* create(int profile, int deterministic) {
  SchedulerConfig config = janus_scheduler_config_default();
  config.worker_count = 1;
  config.profile = profile;
  config.deterministic = deterministic;
  config.deterministic_seed = 42;
  void* scheduler = janus_scheduler_create(config);
  EXPECT(scheduler != NULL);
  return scheduler;
}

int main(void) {
  EXPECT(janus_abi_version() == JANUS_ABI_VERSION);
  EXPECT(strcmp(janus_error_name(JANUS_CANCELLED), "Cancelled") == 0);
  EXPECT(strcmp(janus_error_name(-5), "Internal") == 0);
  EXPECT(janus_last_error(NULL, 0) == 0);

  SchedulerConfig zero;
  memset(&zero, 0, sizeof(zero));
  EXPECT(janus_scheduler_create(zero) == NULL && mentions("janus_scheduler_config_default"));
  SchedulerConfig absurd = janus_scheduler_config_default();
  absurd.worker_count = 1000000;
  EXPECT(janus_scheduler_create(absurd) == NULL && mentions("worker_count"));
  absurd = janus_scheduler_config_default();
  absurd.profile = 17;
  EXPECT(janus_scheduler_create(absurd) == NULL);
  char little[5];
  EXPECT(janus_last_error(little, sizeof(little)) > 4 && strlen(little) == 4);
  EXPECT(janus_scheduler_spawn(function(nothing), NULL) == JANUS_NOT_FOUND);
  outside();

  for (int deterministic = 0; deterministic <= 1; ++deterministic) {
    void* result = NULL;
    void* scheduler = create(JANUS_PROFILE_OPEN, deterministic);
    EXPECT(janus_scheduler_run(scheduler, function(tasks), number(7), &result) == JANUS_OK && value_of(result) == 11);
    EXPECT(janus_scheduler_run(scheduler, function(channels), NULL, NULL) == JANUS_OK);
    EXPECT(janus_scheduler_run(scheduler, function(tokens), NULL, NULL) == JANUS_OK);
    EXPECT(janus_scheduler_run(scheduler, function(bad_arguments), scheduler, NULL) == JANUS_OK);
    EXPECT(janus_scheduler_run(scheduler, function(failing), NULL, &result) == JANUS_QUEUE_FULL && result == NULL);
    EXPECT(janus_scheduler_run(scheduler, NULL, NULL, NULL) == JANUS_INVALID_ARGUMENT);

    JanusTask task = 0;
    EXPECT(janus_scheduler_spawn_on(scheduler, function(doubled), number(3), &task) == JANUS_OK);
    EXPECT(janus_task_join(task, &result, NULL) == JANUS_OK && value_of(result) == 6);
    EXPECT(janus_op_task_create(function(doubled), number(5), NULL, &task) == JANUS_OK);
    EXPECT(janus_op_task_join(task, &result) == JANUS_OK && value_of(result) == 10);
    g_ran = 0;
    EXPECT(janus_scheduler_spawn(function(counts), NULL) == JANUS_OK);
    EXPECT(janus_scheduler_spawn_on(scheduler, function(patient), NULL, &task) == JANUS_OK);
    EXPECT(janus_task_cancel(task) == JANUS_OK);
    EXPECT(janus_task_join(task, NULL, NULL) == JANUS_CANCELLED);
    janus_scheduler_shutdown(scheduler);
    EXPECT(g_ran == 1);
    janus_scheduler_shutdown(scheduler); /* Stale: nothing happens. */
    EXPECT(mentions("stale"));
    EXPECT(janus_scheduler_run(scheduler, function(nothing), NULL, NULL) == JANUS_NOT_FOUND);
  }

  void* metered = create(JANUS_PROFILE_SERVICE, 0);
  EXPECT(janus_scheduler_run(metered, function(budgets), NULL, NULL) == JANUS_OK);
  JanusTask waiting = 0;
  EXPECT(janus_scheduler_spawn_on(metered, function(patient), NULL, &waiting) == JANUS_OK);
  EXPECT(janus_scheduler_cancel(metered) == JANUS_OK);
  EXPECT(janus_task_join(waiting, NULL, NULL) == JANUS_CANCELLED);
  janus_scheduler_shutdown(metered);
  return 0;
}
