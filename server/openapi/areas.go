package openapi

// areas is every area there is, in the order of the document.
var areas = [...]area{
	producing, consuming, transactions,
	queues, groups, messages, deadLetters, traces,
	analytics, maintenance, settings, observing, common,
}
