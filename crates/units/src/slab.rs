//! Numbered places for things in flight: insert gives a number, remove frees it for the next.

/// A vector with holes: insert and remove in O(1); a number is reused after it was freed, the
/// latest first.
#[derive(Debug)]
pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Takes an item; its number.
    pub fn insert(&mut self, item: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = Some(item);
            return index;
        }
        self.items.push(Some(item));
        self.items.len() as u32 - 1
    }

    /// Gives the item back, and its number to the next.
    ///
    /// # Panics
    /// When nothing has this number.
    pub fn remove(&mut self, index: u32) -> T {
        let item = self.items[index as usize].take().expect("only numbers in use are removed");
        self.free.push(index);
        item
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of items held.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Every item with its number, by ascending number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.items.iter().enumerate().filter_map(|(i, item)| Some((i as u32, item.as_ref()?)))
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.items.iter_mut().enumerate().filter_map(|(i, item)| Some((i as u32, item.as_mut()?)))
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        self.items[index as usize].as_ref().expect("only numbers in use are looked up")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.items[index as usize].as_mut().expect("only numbers in use are looked up")
    }
}
