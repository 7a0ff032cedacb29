// Graphs of tasks, whole: who waits for whom, the life cycle, the ready order.
#pragma once

#include "rota/graph/dag.h"
#include "rota/graph/names.h"
#include "rota/graph/ready_order.h"
#include "rota/graph/resources.h"
#include "rota/graph/roster.h"
#include "rota/graph/task.h"
