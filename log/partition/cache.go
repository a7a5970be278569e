package partition

import (
	"container/list"
	"sync"
	"unsafe"

	"github.com/skepmq/skep/index"
)

// itemOverhead is what a cached item costs beside its contents, in bytes, about:
// the item, its list element and its slot in the map.
const itemOverhead = 200

// cacheKey names an extent by the place of its index entry, or a chain by its
// partition. Places are never used twice and partitions start at 1, so neither is
// the other.
type cacheKey struct {
	at        index.Pointer
	partition uint64
}

// cache holds what was read last, up to a number of bytes. What it returns is
// shared and never changes.
type cache struct {
	limit int64

	mu    sync.Mutex
	items map[cacheKey]*list.Element // of *cacheItem
	order *list.List                 // used last in front
	bytes int64
}

type cacheItem struct {
	key    cacheKey
	extent []byte
	chain  []index.Located
}

func (i *cacheItem) size() int64 {
	return itemOverhead + int64(cap(i.extent)) + chainBytes(cap(i.chain))
}

func chainBytes(n int) int64 { return int64(n) * int64(unsafe.Sizeof(index.Located{})) }

func newCache(limit int64) *cache {
	return &cache{limit: limit, items: map[cacheKey]*list.Element{}, order: list.New()}
}

// extent returns the bytes of the extent whose entry lies at, nil if unknown.
func (c *cache) extent(at index.Pointer) []byte {
	if item := c.get(cacheKey{at: at}); item != nil {
		return item.extent
	}
	return nil
}

// chain returns a stretch of a partition's chain in the order of offsets, without
// gaps, nil if unknown.
func (c *cache) chain(partition uint64) []index.Located {
	if item := c.get(cacheKey{partition: partition}); item != nil {
		return item.chain
	}
	return nil
}

func (c *cache) putExtent(at index.Pointer, b []byte) {
	c.put(&cacheItem{key: cacheKey{at: at}, extent: b})
}

func (c *cache) putChain(partition uint64, chain []index.Located) {
	c.put(&cacheItem{key: cacheKey{partition: partition}, chain: chain})
}

func (c *cache) dropChain(partition uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if elem := c.items[cacheKey{partition: partition}]; elem != nil {
		c.remove(elem)
	}
}

func (c *cache) get(key cacheKey) *cacheItem {
	c.mu.Lock()
	defer c.mu.Unlock()
	elem := c.items[key]
	if elem == nil {
		return nil
	}
	c.order.MoveToFront(elem)
	return elem.Value.(*cacheItem)
}

// put adds an item, or replaces the one of its key. One that would push out a
// quarter of the rest is not worth it.
func (c *cache) put(item *cacheItem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.items[item.key]; old != nil {
		c.remove(old)
	}
	if item.size() > c.limit/4 {
		return
	}
	c.items[item.key] = c.order.PushFront(item)
	c.bytes += item.size()
	for c.bytes > c.limit {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(elem *list.Element) {
	item := c.order.Remove(elem).(*cacheItem)
	delete(c.items, item.key)
	c.bytes -= item.size()
}

func (c *cache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
