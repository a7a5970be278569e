// Package linear decides whether what several clients saw at once can have happened in
// some order, one step after the other: whether their history is linearizable. It imports
// nothing of ours; what is right is for the State to say. Only tests use it.
//
// An order has to keep to real time: what was answered before another was sent comes
// first. What was never answered happens before the next crash, or never.
//
// The search is that of Wing and Gong with the memory of Lowe: depth first over the
// orders, remembering which sets of done steps, with which state, have led nowhere. A step
// may lead to several states, where the system has a choice that no answer tells.
package linear
